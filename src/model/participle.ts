/**
 * The past participle that names a Verb's Event (E1): `place` → `placed`, `sell` → `sold`, `cancel` → `cancelled`. Of a
 * name of several words the first is the verb: `markPaid` → `markedPaid`. A Verb declares `event` where this is wrong.
 */
export function pastParticiple(verb: string): string {
  const first = /^[a-z0-9]+/.exec(verb)?.[0] ?? verb
  return participle(first) + verb.slice(first.length)
}

function participle(word: string): string {
  const irregularForm = irregularOf(word)
  if (irregularForm !== undefined) return irregularForm
  if (word.endsWith('e')) return `${word}d`
  if (/[^aeiou]y$/.test(word)) return `${word.slice(0, -1)}ied`
  if (/[aeiou]c$/.test(word)) return `${word}ked`
  if (doubling.has(word) || isShort(word)) return `${word}${word.at(-1)}ed`
  return `${word}ed`
}

/** `resend` → `resent`: what is irregular stays so with a prefix before it. */
function irregularOf(word: string): string | undefined {
  const own = irregular.get(word)
  if (own !== undefined || regular.has(word)) return own
  const prefix = prefixes.exec(word)?.[0] ?? ''
  const rest = irregular.get(word.slice(prefix.length))
  return rest === undefined ? undefined : prefix + rest
}

/** One syllable, one vowel, one consonant at the end: `ship`, `plan`, `quiz`; not `play`, `fix`, `load`. */
function isShort(word: string): boolean {
  return /^(?:qu|[^aeiou])*[aeiou][bdfgklmnprstvz]$/.test(word)
}

/** Participles that follow no rule, of verbs that businesses use: a verb, then its participle. */
const irregular: ReadonlyMap<string, string> = new Map(
  `be been; bear borne; beat beaten; become become; begin begun; bend bent; bet bet; bid bid; bind bound; bleed bled;
   blow blown; break broken; breed bred; bring brought; broadcast broadcast; build built; burst burst; buy bought;
   cast cast; catch caught; choose chosen; come come; cost cost; cut cut; deal dealt; dig dug; do done; draw drawn;
   drink drunk; drive driven; eat eaten; fall fallen; feed fed; feel felt; fight fought; find found; fly flown;
   forecast forecast; freeze frozen; get got; give given; go gone; grind ground; grow grown; hang hung; have had;
   hear heard; hide hidden; hit hit; hold held; hurt hurt; keep kept; know known; lay laid; lead led; leave left;
   lend lent; let let; lose lost; make made; mean meant; meet met; pay paid; put put; quit quit; read read; ride ridden;
   ring rung; rise risen; run run; say said; see seen; seek sought; sell sold; send sent; set set; sew sewn;
   shake shaken; shed shed; shoot shot; show shown; shrink shrunk; shut shut; sink sunk; sit sat; sleep slept;
   speak spoken; speed sped; spend spent; spin spun; split split; spread spread; stand stood; steal stolen; stick stuck;
   strike struck; swear sworn; sweep swept; swing swung; take taken; teach taught; tear torn; tell told; think thought;
   throw thrown; wear worn; weave woven; win won; wind wound; write written;
   forbid forbidden; forget forgotten; mistake mistaken; offset offset`
    .split(';')
    .map((pair): [string, string] => {
      const [verb = '', form = ''] = pair.trim().split(' ')
      return [verb, form]
    }),
)

const prefixes = /^(?:re|under|un|over|out|mis|pre|with|up|off|for|inter)(?=..)/

/** Regular words that a prefix and an irregular rest would seem to make up. */
const regular: ReadonlySet<string> = new Set(['relay'])

/** Words of more than one syllable that double their last letter all the same; `cancelled`, so in British spelling. */
const doubling: ReadonlySet<string> = new Set(
  `abet abhor acquit admit allot annul cancel channel commit compel concur confer control counsel debug defer deter dial dispel
   emit enrol equip excel expel extol format fuel fulfil handicap impel incur infer initial instil kidnap label level
   marshal model occur omit outfit patrol permit prefer program propel quarrel rebel rebut recur refer refit regret
   remit repel replan replot reship reskin retag retrofit rewrap signal submit total transfer transmit
   transship travel tunnel unban unpin unplug untag unwrap unzip worship`.split(/\s+/),
)
