import { bodyBytesMax } from '../model/limits.ts'
import { problem } from '../model/problem.ts'
import { ClientGone } from './answers.ts'
import type { Exchange } from './exchange.ts'

const empty = new Uint8Array(0)

/**
 * The body of a call as it came. Refuses what is too large as soon as that can be known (413), and what isn't declared as
 * JSON in UTF-8 (415). A request without a body needs no content type. Its JSON is the engine's to read (R2).
 */
export function readBody(x: Exchange, contentTypes: readonly string[]): Promise<Uint8Array> | Uint8Array {
  if (!x.hasBody) return empty
  const { headers } = x.req
  if (Number(headers['content-length']) > bodyBytesMax) throw tooLarge()
  const encoding = headers['content-encoding']
  if (encoding !== undefined && !/^(identity)?$/i.test(encoding)) {
    throw problem('unsupported-media-type', 'The body is compressed; only plain JSON is read.')
  }
  // Without a length only the bytes tell whether there is a body that needs a type.
  const untyped = contentTypes.length === 0
  if (!untyped && !isJson(contentTypes)) throw notJson()
  if (untyped && headers['content-length'] !== undefined) throw notJson()
  if (x.expectsContinue) {
    x.res.writeContinue()
    x.expectsContinue = false
  }
  return collect(x, untyped)
}

function collect(x: Exchange, untyped: boolean): Promise<Uint8Array> {
  const { req } = x
  if (req.destroyed) throw gone()
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    const stop = (): void => {
      x.stopReading = null
      req.off('data', onData).off('end', onEnd).off('error', onGone).off('close', onGone)
    }
    const onData = (chunk: Buffer): void => {
      bytes += chunk.length
      const fault = untyped ? notJson() : bytes > bodyBytesMax ? tooLarge() : null
      if (fault === null) chunks.push(chunk)
      else refuse(fault)
    }
    const refuse = (fault: Error): void => {
      stop()
      // The rest is not collected; it is read and dropped once the answer is out.
      req.pause()
      reject(fault)
    }
    const onEnd = (): void => {
      stop()
      const [first] = chunks
      resolve(first === undefined ? empty : chunks.length === 1 ? first : Buffer.concat(chunks, bytes))
    }
    const onGone = (): void => {
      stop()
      reject(gone())
    }
    x.stopReading = refuse
    req.on('data', onData).on('end', onEnd).on('error', onGone).on('close', onGone)
  })
}

/** `application/json`, with `charset=utf-8` or without a charset; other parameters have no meaning (RFC 8259). */
function isJson(contentTypes: readonly string[]): boolean {
  const [type = ''] = contentTypes
  if (contentTypes.length > 1) return false
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
