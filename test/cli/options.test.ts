import { describe, expect, test } from 'vitest'
import { runCli } from '../support/server.ts'

describe('the command line', () => {
  test.each([
    [['serve', '--prot', '4000'], /unknown option '--prot'\n\(Did you mean --port\?\)/],
    [['serve', 'a.ts', 'b.ts'], /too many arguments/],
    [['serve', '--port', '4000', '--port', '4001'], /'--port <number>'.* It is given twice\./],
    [['serve', '--data', 'a.db', '--data', 'b.db'], /'--data <path>'.* It is given twice\./],
    [['serve', '--data', ''], /It is empty\./],
    [['serve', '--port', 'http'], /A port is a number/],
    [['serve', '--port', '65536'], /A port is a number/],
    [['serve', '--port'], /'--port <number>' argument missing/],
    [['serve', '--log-level', 'loud'], /Allowed are info, warn, error, silent\./],
    [['serve', '--origin', 'https://glyphs.store/shop'], /Write it as https:\/\/glyphs\.store\./],
    [['serve', '--origin', 'glyphs.store'], /An origin looks like/],
    [['serve', '--trusted-proxy', 'proxy.internal'], /A proxy is an address or a range of them/],
    [['serve', '--trusted-proxy', '0.0.0.0/0'], /A proxy is an address or a range of them/],
    [['serve', '--trusted-proxy', '10.0.0.0/33'], /A proxy is an address or a range of them/],
    [['serve', '--trusted-proxy', '10.0.0.0/255.0.0.0'], /A proxy is an address or a range of them/],
    [['serve', '--grace', 'long'], /It is a number of seconds/],
    [['serve', '--max-connections', '0'], /It is a whole number, 1 or more\./],
    [['worker', 'add', 'w'], /required option '--kind <kind>' not specified/],
    [['worker', 'add', '--kind', 'agent'], /missing required argument 'name'/],
    [['worker', 'add', 'w', '--kind', 'robot'], /Allowed are agent, human, app\./],
    [['worker', 'add', 'w', '--kind', 'app', '--kind', 'app'], /It is given twice\./],
    [['worker', 'add', 'w', '--kind', 'app', '--namespace', 'Glyphs'], /A namespace looks like glyphs\.store\./],
    [['worker', 'add', 'w', '--kind', 'app', '--expires', '30'], /A time is a whole number and s, m, h or d/],
    [['worker', 'add', 'w', '--kind', 'app', '--expires', '0d'], /A time is a whole number and s, m, h or d/],
    [['worker', 'list', '--output', 'yaml'], /Allowed are json, text\./],
    [['verfy'], /unknown command 'verfy'\n\(Did you mean verify\?\)/],
    [['worker', 'lst'], /unknown command 'lst'\n\(Did you mean list\?\)/],
  ] as const)('%j is refused with exit status 1 and nothing on standard output', async (args, says) => {
    const { status, stdout, stderr } = await runCli(args)
    expect(stderr).toMatch(says)
    expect(stderr).toMatch(/^startup-builder: /)
    expect(stderr).not.toMatch(/^\s+at /m)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
  })

  test.each([[], ['worker']])(
    'without a command, %j shows its help on standard error and exits with 1',
    async (...args) => {
      const { status, stdout, stderr } = await runCli(args.flat())
      expect(stderr).toMatch(/^Usage: startup-builder/)
      expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    },
  )

  test.each([
    ['--help'],
    ['serve', '--help'],
    ['worker', '--help'],
    ['worker', 'add', '--help'],
    ['verify', '--help'],
    ['backup', '--help'],
    ['restore', '--help'],
    ['--version'],
  ])('asking is no error: %s %s %s', async (...args) => {
    const { status, stdout, stderr } = await runCli(args)
    expect(stdout).toMatch(args[0] === '--version' ? /^\d+\.\d+\.\d+\n$/ : /^Usage: startup-builder/)
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  })

  test('commands of later are not pretended to be there', async () => {
    const { stdout } = await runCli(['--help'])
    expect(stdout.match(/^ {2}[a-z]+(?= )/gm)?.map((name) => name.trim())).toEqual([
      'dev',
      'serve',
      'worker',
      'verify',
      'backup',
      'restore',
    ])
  })
})
