//! Random damage to the vectors: the fuzz targets' checks, for those who do not run a fuzzer.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;

use crate::cases;
use crate::examine::{batch, message};

/// Every `hex` of the vectors, and every record of the boards.
fn corpus() -> Vec<Vec<u8>> {
    fn collect(value: &Value, found: &mut Vec<Vec<u8>>) {
        match value {
            Value::Object(fields) => fields.values().for_each(|value| collect(value, found)),
            Value::Array(items) => items.iter().for_each(|value| collect(value, found)),
            Value::String(text) => found.extend(unhex(text)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    for name in ["frames", "invalid-frames", "draws", "invalid-draws", "records", "boards"] {
        let path = format!("{}/vectors/{name}.json", env!("CARGO_MANIFEST_DIR"));
        collect(&serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap(), &mut found);
    }
    found
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let bytes = |at| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..text.len()).step_by(2).map(bytes).collect()
}

/// One piece of damage.
#[derive(Clone, Debug)]
enum Damage {
    Set(Index, u8),
    Flip(Index, u8),
    Remove(Index, Index),
    Insert(Index, Vec<u8>),
    /// Puts a piece of another vector in.
    Splice(Index, Index, Index, Index),
    Repeat(Index, Index),
}

/// Markers and lengths that make readers stumble.
fn evil() -> impl Strategy<Value = Vec<u8>> {
    let long = |marker: u8| vec![marker, 0xff, 0xff, 0xff, 0xff];
    prop_oneof![
        prop::collection::vec(any::<u8>(), 1..9),
        prop::sample::select(vec![0xdd, 0xdf, 0xdb, 0xc6, 0xc9]).prop_map(long),
        prop::sample::select(vec![vec![0xc1], vec![0xc0], vec![0xcf; 9], vec![0xd3; 9], vec![0x91; 40]]),
        Just(vec![0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0]),
    ]
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (at(), 0..8u8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        (at(), at()).prop_map(|(from, to)| Damage::Remove(from, to)),
        (at(), evil()).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        (at(), at(), at(), at()).prop_map(|(at, other, from, to)| Damage::Splice(at, other, from, to)),
        (at(), at()).prop_map(|(from, to)| Damage::Repeat(from, to)),
    ]
}

fn apply(damage: &Damage, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    let place = |index: &Index, bytes: &[u8]| index.index(bytes.len() + 1);
    let range = |from: &Index, to: &Index, bytes: &[u8]| {
        let (a, b) = (place(from, bytes), place(to, bytes));
        a.min(b)..a.max(b)
    };
    match damage {
        Damage::Set(at, byte) if !bytes.is_empty() => *at.get_mut(bytes) = *byte,
        Damage::Flip(at, bit) if !bytes.is_empty() => *at.get_mut(bytes) ^= 1 << bit,
        Damage::Set(..) | Damage::Flip(..) => {}
        Damage::Remove(from, to) => drop(bytes.drain(range(from, to, bytes))),
        Damage::Insert(at, more) => {
            let at = place(at, bytes);
            bytes.splice(at..at, more.iter().copied());
        }
        Damage::Splice(at, other, from, to) => {
            let (at, other) = (place(at, bytes), other.get(corpus));
            bytes.splice(at..at, other[range(from, to, other)].iter().copied());
        }
        Damage::Repeat(from, to) => {
            let range = range(from, to, bytes);
            let piece = bytes[range.clone()].to_vec();
            bytes.splice(range.end..range.end, piece);
        }
    }
}

#[test]
fn the_vectors_themselves() {
    let corpus = corpus();
    assert!(corpus.len() > 300);
    for bytes in &corpus {
        batch(bytes);
        message(bytes);
    }
}

#[test]
fn damaged_vectors_do_no_harm() {
    let corpus = corpus();
    let damages = prop::collection::vec(damage(), 1..6);
    let mut runner = proptest::test_runner::TestRunner::new(cases(10_000));
    let run = runner.run(&(any::<Index>(), damages), |(which, damages)| {
        let mut bytes = which.get(&corpus).clone();
        damages.iter().for_each(|damage| apply(damage, &mut bytes, &corpus));
        batch(&bytes);
        message(&bytes);
        Ok(())
    });
    run.unwrap();
}

proptest! {
    #![proptest_config(cases(5_000))]

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        batch(&bytes);
        message(&bytes);
    }
}
