-- What every script begins with: finds out whether a room's log is the one that its counters describe.
-- KEYS 1 log, 2 meta, 3 clients. ARGV 1 an epoch that nobody has had.

-- Numbers of 2^53 and more would be rounded by Lua.
local SAFE = 9007199254740991
-- Elements in one slice, or one unpack: Lua's stack holds some 8,000 values.
local SLICE = 512

-- All of them are whole, and `%d` is much sooner done than what Lua does by itself.
local function text(number) return string.format('%d', number) end

-- A counter that was written by these scripts, or nil.
local function counter(value)
  local number = value and string.match(value, '^%d+$') and tonumber(value)
  return number and number <= SAFE and number or nil
end

-- The MessagePack integer at a place, and the place behind it.
local WIDTH = { [0xcc] = 1, [0xcd] = 2, [0xce] = 4, [0xcf] = 8 }
local function integer(bytes, place)
  local first = string.byte(bytes, place)
  if not first then return nil end
  if first < 0x80 then return first, place + 1 end
  local width = WIDTH[first]
  if not width or #bytes < place + width then return nil end
  local number = 0
  for i = place + 1, place + width do number = number * 256 + string.byte(bytes, i) end
  if number > SAFE then return nil end
  return number, place + width + 1
end

-- Author and n of a record, and the place of its time, or nil when it does not begin as this project's servers
-- write one.
local function author_and_n(record)
  local first = string.byte(record, 1)
  if not first or first < 0x94 or first > 0x9f then return nil end
  local author, n, place
  author, place = integer(record, 2)
  if author then n, place = integer(record, place) end
  if n then return author, n, place end
end

-- Author, n and time of a record, or nil likewise.
local function identity(record)
  local author, n, place = author_and_n(record)
  local at = author and integer(record, place)
  if at then return author, n, at end
end

-- An author's latest batch, as { first n, last n, last seq }, or nil when the field is not what was written, or
-- tells of records beyond the end of the list.
local function latest_batch(field, records)
  local first, last, seq = string.match(field, '^(%d+) (%d+) (%d+)$')
  first, last, seq = counter(first), counter(last), counter(seq)
  return first and last and seq and seq <= records and { first, last, seq } or nil
end

-- Keeps latest batches, by author.
local function keep_latest(batches)
  local fields = {}
  for author, latest in pairs(batches) do
    fields[#fields + 1] = author
    fields[#fields + 1] = string.format('%d %d %d', latest[1], latest[2], latest[3])
    if #fields >= SLICE then
      redis.call('HSET', KEYS[3], unpack(fields))
      fields = {}
    end
  end
  if #fields > 0 then redis.call('HSET', KEYS[3], unpack(fields)) end
end

-- The log as it is: replid, epoch, records, bytes, clients, has_replicas; `lost` when the keys do not belong together,
-- `renewed` when the epoch is a new one. Nothing is written here.
--
-- `master_replid` is new after a restart, a rollback to an older dump, and a failover of either kind, which
-- no counter inside the replicated keys can show.
local function open()
  local replication = redis.call('INFO', 'replication')
  local replid = string.match(replication, 'master_replid:(%x+)')
  assert(replid, 'this server tells no master_replid, so that a failover could not be noticed')
  local kept = redis.call('HMGET', KEYS[2], 'replid', 'epoch', 'records', 'bytes', 'clients')
  local log = {
    replid = replid,
    records = redis.call('LLEN', KEYS[1]),
    epoch = counter(kept[2]),
    bytes = counter(kept[4]),
    clients = counter(kept[5]),
    has_replicas = string.match(replication, 'connected_slaves:(%d+)') ~= '0',
  }
  log.lost = redis.call('HLEN', KEYS[3]) ~= log.clients or counter(kept[3]) ~= log.records
    or not log.epoch or not log.bytes
  log.renewed = log.lost or kept[1] ~= replid
  if log.renewed then log.epoch = counter(ARGV[1]) end
  return log
end

-- A field of `clients` that tells nothing is as good as lost.
local function distrust(log)
  log.lost, log.renewed, log.epoch = true, true, counter(ARGV[1])
end

-- When the keys do not belong together, the list is the truth: counts its bytes, and finds each author's
-- latest number in it. Only an unbroken run from 1 counts, so that nothing is taken for stored that is not.
local function recount(log)
  local last_n, last_seq, bytes = {}, {}, 0
  for from = 0, log.records - 1, SLICE do
    local slice = redis.call('LRANGE', KEYS[1], from, from + SLICE - 1)
    for i = 1, #slice do
      bytes = bytes + #slice[i]
      local author, n = author_and_n(slice[i])
      if author and author > 0 and n == (last_n[author] or 0) + 1 then
        last_n[author], last_seq[author] = n, from + i
      end
    end
  end
  log.bytes, log.clients, log.found = bytes, 0, {}
  for author, n in pairs(last_n) do
    log.clients = log.clients + 1
    log.found[text(author)] = { n, n, last_seq[author] }
  end
end

-- Writes what `open` and `recount` found. The first write comes first for a reason: it is one that Redis
-- refuses whole when it has no memory or may not write.
local function settle(log)
  redis.call('HSET', KEYS[2], 'replid', log.replid, 'epoch', text(log.epoch), 'records', text(log.records),
    'bytes', text(log.bytes), 'clients', text(log.clients))
  if not log.found then return end
  redis.call('DEL', KEYS[3])
  keep_latest(log.found)
end

-- The same for a script that only reads. When Redis has no memory or disk for the new epoch the log can be read
-- all the same; the next who asks tries again.
local function settle_if_possible(log)
  local written, failure = pcall(settle, log)
  local why = tostring(type(failure) == 'table' and failure.err or failure)
  if not written and not string.find(why, 'OOM') and not string.find(why, 'MISCONF') then error(failure) end
end
