//! Holds `PROTOCOL.md` and `SPEC.md` to the code: examples, tables and numbers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use inkrelay_protocol::code::Remedy;
use inkrelay_protocol::draw::{Drawer, check_draw};
use inkrelay_protocol::limits::{
    self, DRAW_DEPTH, DrawLimits, MESSAGE_DEPTH, POLL_RECORDS_MAX, POLL_WAIT_DEFAULT_S, POLL_WAIT_MAX_S,
    PROFILE_NAME_CHARS, ROOM_NAME_CHARS,
};
use inkrelay_protocol::{ClientFrame, ClientId, CloseCode, Draw, ErrorCode, Record, Role, ServerFrame, json};
use serde_json::Value;

fn document(name: &str) -> String {
    std::fs::read_to_string(format!("{}/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn unhex(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// The fenced examples: what each is, its JSON, and its bytes.
fn examples(document: &str) -> Vec<(String, Value, Vec<u8>)> {
    let fenced = document.split("```text\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let example = |text: &str| {
        let (first, bytes) = text.split_once('\n').unwrap();
        let (kind, json) = first.split_once(": ").unwrap();
        (kind.to_owned(), serde_json::from_str(json).unwrap(), unhex(bytes))
    };
    fenced.map(example).collect()
}

#[test]
fn examples_are_what_they_say() {
    let examples = examples(&document("PROTOCOL.md"));
    assert!(examples.len() >= 16);
    for (kind, twin, bytes) in examples {
        let mut text = Vec::new();
        json::from_msgpack(&bytes, &mut text).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), twin);
        match kind.as_str() {
            "draw" => {
                let drawer = Drawer { client: ClientId::new(77).unwrap(), role: Role::Drawer };
                check_draw(&bytes, &DrawLimits::default(), drawer).unwrap();
                assert_eq!(Draw::decode(&bytes).unwrap().to_bytes(), bytes);
            }
            "record" => assert!(Record::parse(&bytes).is_ok()),
            "client" => {
                let frame = ClientFrame::decode(&bytes).unwrap();
                assert!(!matches!(frame, ClientFrame::Unknown(_)));
                assert_eq!(frame.to_bytes(), bytes);
            }
            "server" => {
                let frame = ServerFrame::decode(&bytes).unwrap();
                assert!(!matches!(frame, ServerFrame::Unknown(_)));
                assert_eq!(frame.to_bytes(), bytes);
            }
            other => panic!("no such kind of example: {other}"),
        }
    }
}

/// The row of a table that begins with this cell, cut into cells.
fn row<'d>(document: &'d str, first: &str) -> Vec<&'d str> {
    let start = format!("| {first} | ");
    let rows: Vec<&str> = document.lines().filter(|line| line.starts_with(&start)).collect();
    let [row] = rows[..] else { panic!("{} rows begin with {first}", rows.len()) };
    row.split('|').map(str::trim).collect()
}

// C-1, C-7
#[test]
fn every_code_is_in_its_table() {
    let document = document("PROTOCOL.md");
    for code in ErrorCode::ALL {
        let row = row(&document, &format!("`{}`", code.as_str()));
        assert_eq!(row[2], code.status().to_string());
        let remedy = match code.remedy() {
            Remedy::Retry => "sends it again",
            Remedy::Drop => "drops the draw",
            Remedy::Renumber => "sends from the `n` expected",
            Remedy::Reset => "forgets the board and takes the snapshot",
            Remedy::NewSession => "takes a new session",
            Remedy::GiveUp => "tells its user",
        };
        assert!(row[3].starts_with(remedy), "{row:?}");
    }
    for code in CloseCode::ALL {
        let row = row(&document, &code.number().to_string());
        assert_eq!(row[3].contains("reconnects"), code.remedy() == Remedy::Retry, "{row:?}");
    }
}

#[test]
fn limits_are_what_the_page_says() {
    let document = document("PROTOCOL.md");
    let limits = DrawLimits::default();
    assert_eq!(row(&document, "bytes of a draw")[2].replace(',', ""), limits.bytes_per_draw.to_string());
    assert_eq!(row(&document, "draws in a batch")[2], limits.draws_per_batch.to_string());
    for sentence in [
        format!("1 to {ROOM_NAME_CHARS} characters of"),
        format!("a name has at most {PROFILE_NAME_CHARS} characters"),
        format!("at most {} KiB", limits::CREDENTIAL_BYTES / 1024),
        format!("nested more than {MESSAGE_DEPTH} levels deep"),
        format!("nested more than {DRAW_DEPTH} levels deep"),
        format!("({POLL_WAIT_DEFAULT_S} if you do not say; at most {POLL_WAIT_MAX_S},"),
        format!("(at most {POLL_RECORDS_MAX} records)"),
    ] {
        assert!(document.contains(&sentence), "{sentence}");
    }
}

/// Numbers are quoted, so they are unique, and every one that these documents quote exists.
#[test]
fn rules_are_numbered_once() {
    let spec = document("SPEC.md");
    let rules: Vec<&str> = spec.split("- **").skip(1).filter_map(|rest| rest.split("**").next()).collect();
    let unique: std::collections::HashSet<&str> = rules.iter().copied().collect();
    assert_eq!(unique.len(), rules.len());
    let protocol = document("PROTOCOL.md");
    let words =
        protocol.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').chain(spec.split_whitespace());
    for word in words.map(|word| word.trim_matches(|c: char| !c.is_ascii_alphanumeric())) {
        let mut parts = word.split('-');
        if let (Some(section), Some(number), None) = (parts.next(), parts.next(), parts.next()) {
            let is_rule = matches!(section, "F" | "D" | "B" | "P" | "R" | "S" | "M" | "L" | "C" | "H")
                && number.parse::<u16>().is_ok();
            assert!(!is_rule || unique.contains(word), "there is no rule {word}");
        }
    }
}
