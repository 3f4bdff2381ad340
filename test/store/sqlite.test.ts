import { openSqlite } from '../../src/store/sqlite/store.ts'
import { describeStore } from './suite.ts'

describeStore({
  name: 'sqlite',
  open: (place, options) => openSqlite(place, { ...options, role: 'server' }),
  openAdmin: (place, options) => openSqlite(place, { ...options, role: 'admin' }),
})
