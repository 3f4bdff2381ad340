import { isIP, isIPv4, SocketAddress } from 'node:net'

/** What every client is counted as whose address does not read: a trusted proxy says what it likes. */
const unreadable = 'unreadable'

/**
 * What an address counts as (§10): IPv4 as it is, in its IPv6 form too; IPv6 by its first 64 bits, since whoever has one
 * address of such a network has all of them. A port, as some proxies add it, is left out.
 */
export function addressOf(ip: string): string {
  const host = isIP(ip) === 0 ? withoutPort(ip) : ip
  if (isIPv4(host)) return host
  if (isIP(host) === 0) return unreadable
  const groups = groupsOf(host)
  const [, , , , , mapped, high = 0, low = 0] = groups
  if (mapped === 0xffff && groups.slice(0, 5).every((group) => group === 0)) {
    return [high >> 8, high & 255, low >> 8, low & 255].join('.')
  }
  const network = groups.slice(0, 4).map((group) => group.toString(16))
  return `${network.join(':')}::/64`
}

/** `203.0.113.9:4711` and `[2001:db8::1]:4711`. */
function withoutPort(text: string): string {
  const [, v6, v4] = /^(?:\[([^\]]*)\]|([\d.]+))(?::\d*)?$/.exec(text) ?? []
  return v6 ?? v4 ?? ''
}

/** The eight groups of an IPv6 address. */
function groupsOf(ip: string): number[] {
  // Without a zone, and in the shortest form, where only the last 32 bits may be written with dots.
  const { address } = new SocketAddress({ address: ip.replace(/%.*$/, ''), family: 'ipv6' })
  const dotted = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(address)
  const plain =
    dotted === null ? address : `${dotted[1]}${hexPair(dotted[2], dotted[3])}:${hexPair(dotted[4], dotted[5])}`
  const [head = '', tail] = plain.split('::')
  const before = head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = Array<string>(8 - before.length - after.length).fill('0')
  return [...before, ...zeros, ...after].map((group) => parseInt(group, 16))
}

function hexPair(high = '0', low = '0'): string {
  return (Number(high) * 256 + Number(low)).toString(16)
}
