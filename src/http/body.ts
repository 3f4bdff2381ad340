import { bodyBytesMax } from '../model/limits.ts'
import { problem } from '../model/problem.ts'
import { ClientGone } from './answers.ts'
import type { Exchange } from './exchange.ts'
import { isTwice } from './fieldlines.ts'

const empty = new Uint8Array(0)

/**
 * The body of a call as it came. Refuses what is too large as soon as that can be known (413), and what isn't declared as
 * JSON in UTF-8 (415). A request without a body needs no content type. Its JSON is the engine's to read (R2).
 */
export function readBody(x: Exchange): Promise<Uint8Array> | Uint8Array {
  if (!x.hasBody) return empty
  const { headers } = x.req
  if (Number(headers['content-length']) > bodyBytesMax) throw tooLarge()
  const encoding = headers['content-encoding']
  if (encoding !== undefined && !/^(identity)?$/i.test(encoding)) {
    throw problem('unsupported-media-type', 'The body is compressed; only plain JSON is read.')
  }
  // Without a length only the bytes tell whether there is a body that needs a type.
  const type = headers['content-type']
  const untyped = type === undefined
  if (!untyped && (!isJson(type) || isTwice(x.req.rawHeaders, 'content-type'))) throw notJson()
  if (untyped && headers['content-length'] !== undefined) throw notJson()
  if (x.expectsContinue) {
    x.res.writeContinue()
    x.expectsContinue = false
  }
  return collect(x, untyped)
}

/** Collects the bytes as they come. Listeners stay where they are: taking them off costs more than their last call. */
function collect(x: Exchange, untyped: boolean): Promise<Uint8Array> {
  const { req } = x
  if (req.destroyed) throw gone()
  return new Promise((resolve, reject) => {
    let chunks: Buffer[] | null = []
    let bytes = 0
    const refuse = (fault: Error): void => {
      if (chunks === null) return
      chunks = null
      x.stopReading = null
      // The rest is not collected; it is read and dropped once the answer is out.
      req.pause()
      reject(fault)
    }
    x.stopReading = refuse
    req.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (untyped) refuse(notJson())
      else if (bytes > bodyBytesMax) refuse(tooLarge())
      else chunks?.push(chunk)
    })
    req.on('end', () => {
      if (chunks === null) return
      x.stopReading = null
      resolve(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks, bytes))
      chunks = null
    })
    req.on('close', () => {
      // It comes after the end, too: an error is made only where there is one.
      if (chunks !== null) refuse(gone())
    })
  })
}

/** `application/json`, with `charset=utf-8` or without a charset; other parameters have no meaning (RFC 8259). */
function isJson(type: string): boolean {
  if (type === 'application/json') return true
  const [media = '', ...parameters] = type.split(';').map((part) => part.trim().toLowerCase())
  if (media !== 'application/json') return false
  return parameters.every((parameter) => !parameter.startsWith('charset') || /^charset="?utf-?8"?$/.test(parameter))
}

function gone(): Error {
  return new ClientGone('the connection ended within the body')
}

function notJson(): Error {
  return problem('unsupported-media-type', 'A body must be declared as Content-Type: application/json, in UTF-8.')
}

function tooLarge(): Error {
  return problem('body-too-large', `The body is larger than ${bodyBytesMax} bytes.`)
}
