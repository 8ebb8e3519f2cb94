//! What Redis refuses, and what does not belong there: no half effects, no panics, and the room lives on.

use inkrelay_protocol::{ClientId, Draw, Identity, Record, Seq};
use inkrelay_server::random;
use inkrelay_server::store::{RedisConfig, RedisStore, Store, StoreError};

use super::{connect, epoch, head, key, list};
use crate::store_contract::{author, batch, read_all, room, store_one};
use crate::support::redis::RedisServer;

/// Everything in the database, in a form that compares.
fn everything(server: &RedisServer) -> Vec<(String, Vec<u8>)> {
    let mut connection = server.connection();
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    keys.sort();
    let dump = |key: &String| redis::cmd("DUMP").arg(key).query(&mut server.connection()).unwrap();
    keys.iter().map(|key| (key.clone(), dump(key))).collect()
}

/// What is published is heard in all databases of a Redis: rooms of one name would leak into each other.
#[tokio::test]
async fn a_numbered_database_is_refused() {
    let server = RedisServer::start();
    let refused = RedisStore::connect(&format!("{}1", server.url()), RedisConfig::default()).await;
    let why = refused.err().expect("database 1").to_string();
    assert!(why.contains("only database 0"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_the_wrong_type_is_an_error_without_half_an_effect() {
    let server = RedisServer::start();
    let store = connect(&server.url()).await;
    for what in ["log", "meta", "clients"] {
        for drawn_in in [false, true] {
            let room = room();
            if drawn_in {
                store_one(&*store, &room, batch(author(1), 1, 3)).await;
                server.command(&["DEL", &key(&room, what)]);
            }
            server.command(&["SET", &key(&room, what), "x"]);
            let before = everything(&server);
            for _ in 0..3 {
                let answer = store.append(&room, &[batch(author(1), 1, 5), batch(author(2), 1, 1)]).await;
                assert!(matches!(&answer, Err(StoreError::Unavailable(why)) if why.contains("WRONGTYPE")));
            }
            assert!(everything(&server) == before, "{what}, drawn in: {drawn_in}");
            server.command(&["DEL", &key(&room, what)]);
            store_one(&*store, &room, batch(author(2), 1, 1)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_memory_nothing_is_written_and_reading_goes_on() {
    let server = RedisServer::start();
    let store = connect(&server.url()).await;
    let (room, other, ada) = (room(), room(), author(1));
    store_one(&*store, &room, batch(ada, 1, 3)).await;
    let healthy = head(&store, &room).await;
    let before = everything(&server);

    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    for batches in [[batch(ada, 4, 2)], [batch(author(2), 1, 600)]] {
        assert!(matches!(store.append(&room, &batches).await, Err(StoreError::Full(_))));
    }
    assert!(matches!(store.append(&other, &[batch(ada, 1, 1)]).await, Err(StoreError::Full(_))));
    assert!(everything(&server) == before);
    assert_eq!(read_all(&*store, &room).await.head, healthy);
    store_one(&*store, &room, batch(ada, 1, 3)).await;

    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(store_one(&*store, &room, batch(ada, 4, 2)).await.new, 2);
}

/// A new epoch would have to be written, and cannot be.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_lost_its_counters_can_be_read_without_memory() {
    let server = RedisServer::start();
    let store = connect(&server.url()).await;
    let (room, ada) = (room(), author(1));
    store_one(&*store, &room, batch(ada, 1, 3)).await;
    let before = head(&store, &room).await;
    server.command(&["DEL", &key(&room, "meta")]);
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let chunk = read_all(&*store, &room).await;
    assert_eq!(chunk.records, batch(ada, 1, 3).records);
    assert_ne!(epoch(chunk.head), epoch(before));
    assert_eq!(store.last_n(&room, ada).await.unwrap(), 3);
    assert!(matches!(store.append(&room, &[batch(ada, 1, 4)]).await, Err(StoreError::Full(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_in_the_list_is_told_as_opaque_draws() {
    let server = RedisServer::start();
    let store = connect(&server.url()).await;
    let (room, ada) = (room(), author(1));
    store_one(&*store, &room, batch(ada, 1, 2)).await;
    let noise: [u8; 300] = random::bytes();
    // The last two begin like records: of nobody's number 2^64 - 1, and of Ada's number 999, deeply nested.
    let huge = b"\x94\x01\xcf\xff\xff\xff\xff\xff\xff\xff\xff\x01\x91\x04";
    let deep = [&b"\x94\x01\xcd\x03\xe7\x01"[..], &[0x91; 5_000]].concat();
    let garbage = [&b""[..], b"\xc1", &noise, &[0x91; 100_000], b"\xca\x7f\xc0\x00\x00", huge, &deep];
    for element in garbage {
        let mut command = redis::cmd("RPUSH");
        command.arg(key(&room, "log")).arg(element).exec(&mut server.connection()).unwrap();
        // A head of which the garbage is the last.
        let seq = list(&server, &room).len() as u64;
        let told = Identity { author: ClientId::ANONYMOUS, n: seq, at: 0 };
        assert_eq!(head(&store, &room).await.position.identity, told);
    }
    assert_eq!(store.last_n(&room, ada).await.unwrap(), 2);
    let appended = store.append(&room, &[batch(ada, 3, 1)]).await.unwrap();
    assert_eq!(appended.before.seq, Seq::new(9).unwrap());
    assert_eq!(appended.before.identity.n, 9);
    let records = read_all(&*store, &room).await.records;
    assert_eq!(records.len(), 10);
    for (element, record) in garbage.iter().zip(&records[2..]) {
        let draw = Record::parse(record).unwrap().draw;
        assert_eq!(Draw::decode(draw), Ok(Draw::Opaque(element.to_vec())));
    }
    assert_eq!(records[9], batch(ada, 3, 1).records[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_in_the_counters_is_as_good_as_lost() {
    let server = RedisServer::start();
    let store = connect(&server.url()).await;
    let (room, ada) = (room(), author(1));
    store_one(&*store, &room, batch(ada, 1, 2)).await;
    for (what, field) in
        [("meta", "epoch"), ("meta", "records"), ("meta", "bytes"), ("meta", "clients"), ("clients", "1")]
    {
        // The last would be an author's latest batch, of a list much longer than this.
        for value in ["", "x", "-1", "1e3", "99999999999999999999", "nan", "1 900 900"] {
            let before = head(&store, &room).await;
            server.command(&["HSET", &key(&room, what), field, value]);
            let stored = store_one(&*store, &room, batch(ada, 1, 2)).await;
            assert_eq!((stored.new, stored.last_seq), (0, Seq::new(2).unwrap()), "{what} {field} {value}");
            assert_ne!(epoch(head(&store, &room).await), epoch(before), "{what} {field} {value}");
        }
    }
}

/// Pub/sub is a hint: who may not publish stores all the same. And the password is nobody's business.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_few_rights_stores_and_reads() {
    let server = RedisServer::start();
    server.command(&[
        "ACL",
        "SETUSER",
        "relay",
        "on",
        ">hush hush",
        "~inkrelay:*",
        "&inkrelay*",
        "+@all",
        "-config",
        "-publish",
    ]);
    let url = format!("redis://relay:hush%20hush@127.0.0.1:{}/", server.port());
    let store = connect(&url).await;
    assert!(!store.describe().contains("hush"), "{}", store.describe());
    assert!(store.describe().contains("may not read"), "{}", store.describe());
    let (room, ada) = (room(), author(1));
    store_one(&*store, &room, batch(ada, 1, 2)).await;
    assert_eq!(read_all(&*store, &room).await.records, batch(ada, 1, 2).records);
    assert_eq!(store.secret().await.unwrap(), store.secret().await.unwrap());
    store.check().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_ack_is_worth_is_said() {
    for (server, words) in [
        (RedisServer::start(), "in Redis's memory"),
        (RedisServer::durable(), "on Redis's disk"),
        (RedisServer::with_options(&["--appendonly", "yes"]), "the last two seconds"),
    ] {
        let told = connect(&server.url()).await.describe();
        assert!(told.contains(words), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_cannot_be_used_is_an_error_with_a_reason() {
    let mut server = RedisServer::start();
    server.kill();
    let config = RedisConfig { answer_within: std::time::Duration::from_millis(300) };
    for url in ["", "http://127.0.0.1/", "redis://user:hush@127.0.0.1:port/", &server.url()] {
        let Err(error) = RedisStore::connect(url, config).await else { panic!("{url} was taken") };
        assert!(!error.to_string().contains("hush"), "{error}");
    }
}
