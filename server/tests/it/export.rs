//! Rooms that go through a file: from one store to another, and back.

use std::process::Output;
use std::sync::Arc;

use bytes::Bytes;
use inkrelay_protocol::{ClientId, Identity, Record, RoomId};
use inkrelay_server::export::{ExportError, Progress, Source, Which, check, export, import};
use inkrelay_server::random;
use inkrelay_server::store::rules::{Ban, RuleChange};
use inkrelay_server::store::{
    Batch, EmbeddedReader, EmbeddedStore, MemoryStore, RedisConfig, RedisStore, Rules, Store, SyncPolicy,
};

use crate::store_contract::{Dice, author, batch, read_all, record, store_one};
use crate::support::http::Http;
use crate::support::process::Process;
use crate::support::reader::Reader;
use crate::support::redis::RedisServer;
use crate::support::relay::Relay;

fn id(name: &str) -> RoomId {
    name.parse().unwrap()
}

async fn exported(source: &Source) -> Vec<u8> {
    let mut file = Vec::new();
    export(source, Which::All, &mut file, |_| {}).await.unwrap();
    file
}

async fn imported(file: &[u8], store: &dyn Store) -> Progress {
    let imported = import(file, store, false, |_| {}).await.unwrap();
    assert_eq!(imported.existing, [] as [RoomId; 0]);
    imported.done
}

/// All rooms with their records, their authors' newest numbers, and what is answered to a retry of these.
async fn content(store: &dyn Store) -> Vec<(RoomId, Vec<Bytes>, Vec<String>)> {
    let mut content = Vec::new();
    for found in store.rooms(None, 1000).await.unwrap() {
        let chunk = read_all(store, &found.room).await;
        let mut told = vec![format!("{:?}", store.rules(&found.room).await.unwrap())];
        for id in 1..8 {
            let last_n = store.last_n(&found.room, author(id)).await.unwrap();
            let retry = Batch {
                author: author(id),
                first_n: last_n.max(1),
                records: vec![record(author(id), last_n.max(1))],
            };
            if last_n > 0 {
                let outcomes = store.append(&found.room, &[retry]).await.unwrap().outcomes;
                told.push(format!("{id}: {last_n} {outcomes:?}"));
            }
        }
        assert_eq!((chunk.head.bytes, chunk.head.position.seq), (found.bytes, found.position.seq));
        content.push((found.room, chunk.records, told));
    }
    content
}

fn ink(dice: &mut Dice, author: ClientId, n: u64) -> Bytes {
    let mut draw = vec![0x92, 0x05, 0xc5];
    let len = dice.below(600) as u16;
    draw.extend(len.to_be_bytes());
    draw.extend((0..len).map(|_| dice.below(256) as u8));
    let mut record = Vec::new();
    Record { identity: Identity { author, n, at: 1 + dice.below(1 << 41) }, draw: &draw }.encode(&mut record);
    record.into()
}

/// Draws by several people and by nobody, in some rooms.
async fn fill(store: &dyn Store, dice: &mut Dice) {
    for room in 0..1 + dice.below(6) {
        let room = id(&format!("room-{room}"));
        let mut next = [1; 8];
        for _ in 0..1 + dice.below(12) {
            let who = dice.below(8) as usize;
            let (author, first_n) = (ClientId::new(who as u64).unwrap(), next[who]);
            let count = 1 + dice.below(40);
            let records = (first_n..first_n + count).map(|n| ink(dice, author, n)).collect();
            store_one(store, &room, Batch { author, first_n, records }).await;
            next[who] += count;
        }
        let mut rules = Rules::default();
        for who in 1..1 + dice.below(3) {
            rules.change(&RuleChange::Client(author(who), Ban::Banned)).unwrap();
        }
        rules.change(&RuleChange::Lock(dice.below(2) == 0)).unwrap();
        assert!(store.set_rules(&room, &Rules::default(), &rules).await.unwrap());
    }
}

/// The same boards, byte for byte, wherever they go: embedded, Redis, memory.
#[tokio::test(flavor = "multi_thread")]
async fn what_goes_through_files_from_store_to_store_stays_the_same() {
    let seed =
        std::env::var("INKRELAY_TEST_SEED").ok().map_or_else(random::u64, |seed| seed.parse().unwrap());
    println!("run again with INKRELAY_TEST_SEED={seed}");
    let (mut dice, redis) = (Dice(seed), RedisServer::start());
    for _ in 0..8 {
        let folder = tempfile::tempdir().unwrap();
        let embedded = Arc::new(EmbeddedStore::open(folder.path(), SyncPolicy::Interval).unwrap());
        fill(&*embedded, &mut dice).await;
        let before = content(&*embedded).await;
        // From the file while the server has it open, much of it in the journal, and from the store.
        let beside = exported(&Source::File(EmbeddedReader::open(folder.path()).unwrap())).await;
        let first = exported(&Source::Store(embedded.clone())).await;
        assert_eq!(beside.len(), first.len());
        let done = check(&beside[..]).unwrap();
        assert_eq!(done, check(&first[..]).unwrap());

        redis.command(&["FLUSHALL"]);
        let shared = Arc::new(RedisStore::connect(&redis.url(), RedisConfig::default()).await.unwrap());
        assert_eq!(imported(&beside, &*shared).await, done);
        assert_eq!(content(&*shared).await, before);
        let second = exported(&Source::Store(shared)).await;

        let memory = Arc::new(MemoryStore::new());
        imported(&second, &*memory).await;
        assert_eq!(content(&*memory).await, before);
        let third = exported(&Source::Store(memory)).await;

        let other = tempfile::tempdir().unwrap();
        let back = EmbeddedStore::open(other.path(), SyncPolicy::Always).unwrap();
        imported(&third, &back).await;
        assert_eq!(content(&back).await, before);
        back.close().await;
        drop(back);
        let back = EmbeddedStore::open(other.path(), SyncPolicy::Always).unwrap();
        assert_eq!(content(&back).await, before, "also after a restart");
        back.close().await;
        embedded.close().await;
    }
}

/// A file that was cut off, or of which one byte changed, is told as damaged, and where; nothing of a room that is not
/// whole counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_told_and_brings_no_half_room() {
    let store = Arc::new(MemoryStore::new());
    for room in ["a", "b"] {
        for who in 1..4 {
            store_one(&*store, &id(room), batch(author(who), 1, 3)).await;
        }
    }
    let whole = content(&*store).await;
    let file = exported(&Source::Store(store)).await;
    let is_told = |file: &[u8]| match check(file) {
        Err(ExportError::Damaged { at, .. }) => assert!(at <= file.len() as u64),
        // Its first bytes are what tells an export from anything else.
        Err(ExportError::NoExport(_)) => assert!(!file.starts_with(&[0x93, 0, 0xc6])),
        // The version is not a matter of damage.
        Err(ExportError::Refused(what)) => assert!(what.contains("newer version"), "{what}"),
        other => panic!("{other:?}"),
    };
    for end in 0..file.len() {
        is_told(&file[..end]);
        let into = MemoryStore::new();
        import(&file[..end], &into, false, |_| {}).await.unwrap_err();
        for room in content(&into).await {
            assert!(whole.contains(&room), "{} is there, and not whole", room.0);
        }
    }
    for at in 0..file.len() {
        let mut changed = file.clone();
        changed[at] ^= 1 << (at % 8);
        is_told(&changed);
    }
    is_told(&[&file[..], b"x"].concat());
}

/// A log of many megabytes is read and written in parts.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_room_goes_through_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(EmbeddedStore::open(folder.path(), SyncPolicy::Interval).unwrap());
    let ink = vec![7; 60_000];
    for turn in 0..25 {
        let records = (turn * 20 + 1..turn * 20 + 21).map(|n| {
            let mut record = Vec::new();
            let draw = inkrelay_protocol::Draw::Opaque(ink.clone()).to_bytes();
            Record { identity: Identity { author: author(1), n, at: 5 }, draw: &draw }.encode(&mut record);
            Bytes::from(record)
        });
        let batch = Batch { author: author(1), first_n: turn * 20 + 1, records: records.collect() };
        store_one(&*store, &id("a"), batch).await;
    }
    let mut parts = Vec::new();
    let mut file = Vec::new();
    let source = Source::Store(store.clone());
    export(&source, Which::One(&id("a")), &mut file, |progress| parts.push(progress.bytes)).await.unwrap();
    assert!(parts.windows(2).all(|two| two[1] - two[0] <= 1 << 20), "{parts:?}");
    assert!(parts.len() > 20);
    assert!(file.len() > 30_000_000);
    let other = tempfile::tempdir().unwrap();
    let into = EmbeddedStore::open(other.path(), SyncPolicy::Always).unwrap();
    imported(&file, &into).await;
    assert_eq!(content(&into).await, content(&*store).await);
    into.close().await;
    store.close().await;
}

async fn inkrelay(args: &[&str]) -> Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_inkrelay"));
    command.args(args);
    tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap()
}

async fn succeeds(args: &[&str]) -> String {
    let output = inkrelay(args).await;
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

async fn fails(args: &[&str]) -> String {
    let output = inkrelay(args).await;
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// On the command line: from a relay that runs on a folder into a Redis, where a relay goes on with the same board, and
/// whoever has read a part of it goes on reading.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_is_moved_to_another_store_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (data, redis) = (data.to_str().unwrap(), RedisServer::start());
    let url = redis.url();
    let relay = Process::keeping(&["--data", data]);
    let post = async |room: &str, address| {
        let url = format!("http://{address}/v1/rooms/{room}/draws");
        let body = "[[4],[4]]";
        let sent = reqwest::Client::new().post(url).header("content-type", "application/json").body(body);
        assert_eq!(sent.send().await.unwrap().status(), 200);
    };
    post("a", relay.address).await;
    post("b", relay.address).await;
    let mut reader = Reader::join("reader", relay.address, "a").await;
    reader.has(2).await;
    let position = reader.position().unwrap();
    post("a", relay.address).await;

    let listed = succeeds(&["rooms", "--data", data]).await;
    let columns: Vec<Vec<_>> = listed.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(columns.iter().map(|row| (row[0], row[1])).collect::<Vec<_>>(), [("a", "4"), ("b", "2")]);
    assert!(fails(&["delete", "a", "--data", data]).await.contains("another server has the folder"));
    assert!(fails(&["export", "nothing", "--data", data]).await.contains("nobody has drawn"));
    let file = folder.path().join("all.export");
    let file = file.to_str().unwrap();
    succeeds(&["export", "--all", "--data", data, "--out", file]).await;
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no other file is left");
    succeeds(&["import", file, "--redis", &url]).await;
    let told = fails(&["import", file, "--redis", &url]).await;
    assert!(told.contains("2 rooms were there already"), "{told}");
    succeeds(&["import", file, "--replace", "--redis", &url]).await;
    assert_eq!(succeeds(&["rooms", "--redis", &url]).await, listed);

    let store = Arc::new(RedisStore::connect(&url, RedisConfig::default()).await.unwrap());
    let new = Relay::start_on(store, |_| {}).await;
    let went_on = Http::new(new.address, "a").poll(&position.to_string(), 0).await.unwrap();
    assert_eq!((went_on.first, went_on.records.len()), (3, 2), "it is the same log");
    let mut moved = Reader::join("moved", new.address, "a").await;
    moved.has(4).await;
    succeeds(&["delete", "a", "--redis", &url]).await;
    moved.until("it is reset", |log| log.resets() == 1 && log.len() == 0).await;
    assert!(fails(&["delete", "a", "--redis", &url]).await.contains("nobody has drawn"));

    // A damaged file changes nothing.
    let mut bytes = std::fs::read(file).unwrap();
    let at = bytes.len() - 40;
    bytes[at] ^= 1;
    std::fs::write(file, bytes).unwrap();
    let told = fails(&["import", file, "--redis", &url]).await;
    assert!(told.contains("damaged at byte") && told.contains("all.export"), "{told}");
    assert_eq!(succeeds(&["rooms", "--redis", &url]).await.lines().count(), 1);
}

/// What is no export is told as such, and with what it begins.
#[tokio::test]
async fn a_file_that_is_no_export_is_told() {
    for (file, begins) in [
        (&b""[..], "it is empty"),
        (b"SQLite format 3\0", "it begins with \"SQLite \""),
        (b"\x28\xb5\x2f\xfd", "it begins with \"(\\xb5/\\xfd\""),
    ] {
        let error = check(file).unwrap_err().to_string();
        assert_eq!(error, format!("this is no export of Inkrelay: {begins}"));
        let error = import(file, &MemoryStore::new(), false, |_| {}).await.unwrap_err();
        assert!(matches!(error, ExportError::NoExport(_)), "{error}");
    }
}

/// What cannot be read twice is read once, and what is no file is written into, not replaced.
#[tokio::test(flavor = "multi_thread")]
async fn exports_go_through_pipes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let store = EmbeddedStore::open(std::path::Path::new(&path("data")), SyncPolicy::Always).unwrap();
    store_one(&store, &id("a"), batch(author(1), 1, 3)).await;
    store.close().await;
    drop(store);
    let whole = path("whole");
    succeeds(&["export", "a", "--data", &path("data"), "--out", &whole]).await;
    let shell = async |script: &str, into: &str| {
        std::fs::create_dir(path(into)).unwrap();
        let script = script.replace("INTO", &path(into)).replace("DATA", &path("data"));
        let mut command = std::process::Command::new("sh");
        command.current_dir(folder.path()).env("INKRELAY", env!("CARGO_BIN_EXE_inkrelay"));
        let done = command.args(["-c", &format!("set -e; {script}")]).output().unwrap();
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(
            succeeds(&["rooms", "--data", &path(into)]).await.split('\t').nth(1),
            Some("3"),
            "{script}"
        );
    };
    shell("cat whole | $INKRELAY import - --data INTO", "dash").await;
    shell("cat whole | $INKRELAY import /dev/stdin --data INTO", "stdin").await;
    shell("$INKRELAY import /dev/stdin --data INTO < whole", "redirected").await;
    shell("mkfifo pipe; cat whole > pipe & $INKRELAY import pipe --data INTO", "named").await;
    shell("$INKRELAY export a --data DATA --out - | $INKRELAY import - --data INTO", "out").await;
    shell(
        "mkfifo there; $INKRELAY export a --data DATA --out there & $INKRELAY import there --data INTO; test -p there",
        "way",
    )
    .await;
    let none = path("none");
    std::fs::write(&none, "a letter\n").unwrap();
    let told = fails(&["import", &none, "--data", &path("data")]).await;
    assert!(told.contains("no export of Inkrelay: it begins with \"a lette\""), "{told}");
}

/// A ban before anybody has drawn.
#[tokio::test(flavor = "multi_thread")]
async fn a_room_that_is_only_ruled_is_listed_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
    let mut rules = Rules::default();
    rules.change(&RuleChange::Client(author(7), Ban::Banned)).unwrap();
    rules.date(86_400_000);
    assert!(store.set_rules(&id("a"), &Rules::default(), &rules).await.unwrap());
    store.close().await;
    drop(store);
    assert_eq!(succeeds(&["rooms", "--data", data]).await, "a\t0\t0\t1970-01-02T00:00:00Z\n");
    let file = folder.path().join("all.export");
    succeeds(&["export", "--all", "--data", data, "--out", file.to_str().unwrap()]).await;
    assert_eq!(
        check(&std::fs::read(file).unwrap()[..]).unwrap(),
        Progress::default(),
        "its rules are not in it"
    );
    let told = inkrelay(&["delete", "a", "--data", data]).await;
    assert_eq!((told.status.code(), &told.stderr[..]), (Some(0), &b"deleted room a with its rules\n"[..]));
    assert_eq!(succeeds(&["rooms", "--data", data]).await, "");
    assert!(fails(&["delete", "a", "--data", data]).await.contains("there is no room a"));
}
