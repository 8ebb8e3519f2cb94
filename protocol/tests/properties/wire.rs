//! What is written is read back, and what is cut is malformed.

use inkrelay_protocol::draw::{BatchError, Drawer, check_batch};
use inkrelay_protocol::frame::Hello;
use inkrelay_protocol::json::{self, Shape};
use inkrelay_protocol::limits::DrawLimits;
use inkrelay_protocol::msgpack;
use inkrelay_protocol::{
    After, ClientFrame, ClientId, Draw, Participant, Position, Record, Role, Seq, ServerFrame, SessionLimits,
};
use proptest::option;
use proptest::prelude::*;
use serde_json::Value;

use crate::cases;
use crate::values::{client, coordinate, draw, identity, position, profile, safe, seq};

const MODERATOR: Drawer = Drawer { client: ClientId::ANONYMOUS, role: Role::Moderator };

fn moderator() -> Drawer {
    Drawer { client: ClientId::new(7).unwrap(), ..MODERATOR }
}

fn batch_of(draws: &[Draw]) -> Vec<u8> {
    let mut batch = Vec::new();
    msgpack::write_array(&mut batch, draws.len());
    draws.iter().for_each(|draw| draw.encode(&mut batch));
    batch
}

fn as_json(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    json::from_msgpack(bytes, &mut text).unwrap();
    text
}

fn credential() -> impl Strategy<Value = String> {
    "[!-~]{0,80}"
}

fn record() -> impl Strategy<Value = Vec<u8>> {
    (identity(), draw()).prop_map(|(identity, draw)| {
        let mut bytes = Vec::new();
        Record { identity, draw: &draw.to_bytes() }.encode(&mut bytes);
        bytes
    })
}

/// Any JSON of a few levels; numbers as a sender in any language writes them.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 100, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
            prop::collection::hash_map(".{0,8}", inner, 0..20).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn check_client(frame: &ClientFrame<'_>) -> Result<(), TestCaseError> {
    let bytes = frame.to_bytes();
    prop_assert_eq!(&ClientFrame::decode(&bytes), &Ok(frame.clone()));
    // In JSON it is the same frame.
    let from_json = json::to_msgpack(&as_json(&bytes), Shape::ClientFrame).unwrap();
    prop_assert_eq!(from_json, bytes);
    Ok(())
}

fn check_server(frame: &ServerFrame<'_>) -> Result<(), TestCaseError> {
    let bytes = frame.to_bytes();
    prop_assert_eq!(&ServerFrame::decode(&bytes), &Ok(frame.clone()));
    serde_json::from_slice::<Value>(&as_json(&bytes)).unwrap();
    Ok(())
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn draws_go_round(draw in draw()) {
        let bytes = draw.to_bytes();
        prop_assert_eq!(Draw::decode(&bytes), Ok(draw));
    }

    // D-20
    #[test]
    fn the_door_gives_back_the_very_bytes(draws in prop::collection::vec(draw(), 1..8)) {
        let batch = batch_of(&draws);
        let bytes: Vec<Vec<u8>> = draws.iter().map(Draw::to_bytes).collect();
        let checked = check_batch(&batch, &DrawLimits { bytes_per_draw: 0, draws_per_batch: 0 }, moderator());
        prop_assert_eq!(checked, Ok(bytes.iter().map(Vec::as_slice).collect()));
    }

    #[test]
    fn batches_go_round_in_json(draws in prop::collection::vec(draw(), 1..8)) {
        let batch = batch_of(&draws);
        prop_assert_eq!(json::to_msgpack(&as_json(&batch), Shape::Draws).unwrap(), batch);
    }

    #[test]
    fn records_go_round(identity in identity(), draw in draw()) {
        let draw = draw.to_bytes();
        let record = Record { identity, draw: &draw };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        prop_assert_eq!(Record::parse(&bytes), Ok(record));
        prop_assert!(bytes.len() <= draw.len() + Record::OVERHEAD_BYTES);
    }

    #[test]
    fn positions_go_round(position in position()) {
        let text = position.to_string();
        prop_assert_eq!(text.parse::<Position>(), Ok(position));
        let after = if position.seq == Seq::START { After::Start } else { After::Position(position) };
        prop_assert_eq!(text.parse::<After>(), Ok(after));
        prop_assert!(position.matches(&position));
        check_server(&ServerFrame::Heartbeat(position))?;
    }

    #[test]
    fn a_text_is_a_position_or_none(text in "[0-9.+ a]{0,40}") {
        if let Ok(After::Position(position)) = text.parse::<After>() {
            let again = position.to_string().parse::<After>();
            prop_assert_eq!(again, Ok(After::Position(position)));
        }
    }

    #[test]
    fn client_frames_go_round(
        hello in (option::of(credential()), option::of(position()), option::of(profile()), option::of(credential())),
        n in safe(),
        draws in prop::collection::vec(draw(), 1..5),
        (x, y) in (coordinate(), coordinate()),
        profile in profile(),
        token in credential(),
        tag in 6..u64::MAX,
    ) {
        let (ticket, position, hello_profile, hello_token) = hello;
        let hello = Hello { ticket, position, profile: hello_profile, token: hello_token };
        check_client(&ClientFrame::Hello(hello))?;
        check_client(&ClientFrame::Draws { n: n.max(1), draws: &batch_of(&draws) })?;
        check_client(&ClientFrame::Pointer { x, y })?;
        check_client(&ClientFrame::Profile(profile))?;
        check_client(&ClientFrame::Token(token))?;
        check_client(&ClientFrame::Unknown(tag))?;
    }

    #[test]
    fn server_frames_go_round(
        (client, seq, position) in (client(), seq(), position()),
        (x, y) in (coordinate(), coordinate()),
        (a, b, limits) in (safe(), option::of(safe()), [safe(), safe(), safe(), safe(), safe()]),
        (role, more) in (0..3u64, any::<bool>()),
        (code, message) in (credential(), ".{0,80}"),
        profiles in prop::collection::vec(profile(), 0..4),
        records in prop::collection::vec(record(), 0..5),
    ) {
        let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let role = Role::from_number(role).unwrap();
        let limits = SessionLimits::from_array(limits);
        let ticket = code.clone();
        let participants = profiles.into_iter().map(|profile| Participant { client, profile }).collect();
        check_server(&ServerFrame::Welcome { client, ticket, position, role, limits })?;
        check_server(&ServerFrame::Records { seq, records: records.clone() })?;
        check_server(&ServerFrame::Ack { n: a, seq })?;
        check_server(&ServerFrame::Reset { position, records, more })?;
        check_server(&ServerFrame::Participants(participants))?;
        check_server(&ServerFrame::Pointer { client, x, y })?;
        check_server(&ServerFrame::Error { code, message: message.clone(), retry_ms: b, n: Some(a) })?;
        check_server(&ServerFrame::Lock(a % 2 == 0))?;
        check_server(&ServerFrame::GoAway { reason: message, retry_ms: a })?;
    }

    // F-13, F-14
    #[test]
    fn json_goes_round(value in any_json()) {
        let text = serde_json::to_vec(&value).unwrap();
        for shape in [Shape::ClientFrame, Shape::Draws] {
            let bytes = json::to_msgpack(&text, shape).unwrap();
            let back: Value = serde_json::from_slice(&as_json(&bytes)).unwrap();
            prop_assert_eq!(&back, &value);
        }
    }

    // D-3, F-5
    #[test]
    fn a_batch_cut_anywhere_is_malformed(draws in prop::collection::vec(draw(), 1..4)) {
        let mut batch = batch_of(&draws);
        for end in 0..batch.len() {
            let cut = check_batch(&batch[..end], &DrawLimits::default(), moderator());
            prop_assert!(matches!(cut, Err(BatchError::Malformed(_))), "cut at {}: {:?}", end, cut);
        }
        batch.push(0);
        let longer = check_batch(&batch, &DrawLimits::default(), moderator());
        prop_assert!(matches!(longer, Err(BatchError::Malformed(_))));
    }

    #[test]
    fn a_frame_cut_anywhere_is_malformed(draws in prop::collection::vec(draw(), 1..4), position in position()) {
        let batch = batch_of(&draws);
        let hello = Hello { ticket: Some("t".into()), position: Some(position), profile: None, token: None };
        for frame in [ClientFrame::Draws { n: 1, draws: &batch }, ClientFrame::Hello(hello)] {
            let bytes = frame.to_bytes();
            for end in 0..bytes.len() {
                prop_assert!(ClientFrame::decode(&bytes[..end]).is_err(), "cut at {}", end);
            }
        }
    }
}
