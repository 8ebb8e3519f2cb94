//! Holds this implementation to the vectors that every client's tests read. `vectors/README.md` has the format.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use inkrelay_protocol::draw::{BatchError, Drawer, Refusal, check_batch};
use inkrelay_protocol::json::{self, Shape};
use inkrelay_protocol::limits::DrawLimits;
use inkrelay_protocol::{
    After, Board, Channels, ClientFrame, ClientId, Draw, Epoch, Identity, Position, Profile, Record, Role,
    Seq, ServerFrame,
};
use serde_json::{Value, json};

fn file(name: &str) -> Value {
    let path = format!("{}/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap()
}

/// Runs a check for each case of a group; `check` hears the case's name from the panic message around it.
fn each(file: &Value, group: &str, check: impl Fn(&Value)) {
    let cases = file[group].as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let run = std::panic::AssertUnwindSafe(|| check(case));
        if std::panic::catch_unwind(run).is_err() {
            panic!("in {group}: {case}");
        }
    }
}

fn unhex(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap();
    assert_eq!(text.len() % 2, 0);
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hexes<B: AsRef<[u8]>>(items: &[B]) -> Vec<String> {
    items.iter().map(|item| hex(item.as_ref())).collect()
}

fn twin(bytes: &[u8]) -> Value {
    let mut text = Vec::new();
    json::from_msgpack(bytes, &mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn position(position: &Position) -> Value {
    let Identity { author, n, at } = position.identity;
    json!([position.epoch.get(), position.seq.get(), author.get(), n, at])
}

fn read_position(value: &Value) -> Position {
    let part = |index: usize| value[index].as_u64().unwrap();
    let identity = Identity { author: ClientId::new(part(2)).unwrap(), n: part(3), at: part(4) };
    Position { epoch: Epoch::new(part(0)).unwrap(), seq: Seq::new(part(1)).unwrap(), identity }
}

fn profile(profile: &Profile) -> Value {
    json!([profile.name, profile.rgba])
}

fn client_frame(frame: &ClientFrame<'_>) -> Value {
    match frame {
        ClientFrame::Hello(hello) => json!({
            "type": "hello",
            "ticket": hello.ticket,
            "position": hello.position.as_ref().map(position),
            "profile": hello.profile.as_ref().map(profile),
            "token": hello.token,
        }),
        ClientFrame::Draws { n, draws } => json!({"type": "draws", "n": n, "draws": hex(draws)}),
        ClientFrame::Pointer { x, y } => json!({"type": "pointer", "x": x, "y": y}),
        ClientFrame::Profile(of) => json!({"type": "profile", "profile": profile(of)}),
        ClientFrame::Token(token) => json!({"type": "token", "token": token}),
        ClientFrame::Unknown(tag) => json!({"type": "unknown", "tag": tag}),
    }
}

fn server_frame(frame: &ServerFrame<'_>) -> Value {
    match frame {
        ServerFrame::Welcome { client, ticket, position: head, role, limits } => json!({
            "type": "welcome",
            "client": client.get(),
            "ticket": ticket,
            "position": position(head),
            "role": role.number(),
            "limits": limits.to_array(),
        }),
        ServerFrame::Records { seq, records } => {
            json!({"type": "records", "seq": seq.get(), "records": hexes(records)})
        }
        ServerFrame::Ack { n, seq } => json!({"type": "ack", "n": n, "seq": seq.get()}),
        ServerFrame::Reset { position: at, records, more } => {
            json!({"type": "reset", "position": position(at), "records": hexes(records), "more": more})
        }
        ServerFrame::Participants(list) => {
            let one =
                |p: &inkrelay_protocol::Participant| json!([p.client.get(), p.profile.name, p.profile.rgba]);
            json!({"type": "participants", "participants": list.iter().map(one).collect::<Vec<_>>()})
        }
        ServerFrame::Pointer { client, x, y } => {
            json!({"type": "pointer", "client": client.get(), "x": x, "y": y})
        }
        ServerFrame::Heartbeat(head) => json!({"type": "heartbeat", "position": position(head)}),
        ServerFrame::Error { code, message, retry_ms, n } => {
            json!({"type": "error", "code": code, "message": message, "retry_ms": retry_ms, "n": n})
        }
        ServerFrame::GoAway { reason, retry_ms } => {
            json!({"type": "go_away", "reason": reason, "retry_ms": retry_ms})
        }
        ServerFrame::Lock(is_locked) => json!({"type": "lock", "locked": is_locked}),
        ServerFrame::Unknown(tag) => json!({"type": "unknown", "tag": tag}),
    }
}

fn pairs(pairs: &[(ClientId, u64)]) -> Value {
    pairs.iter().map(|(client, number)| json!([client.get(), number])).collect()
}

fn draw(draw: &Draw) -> Value {
    match draw {
        Draw::Begin { stroke, style, channels, points, end } => json!({
            "kind": "begin",
            "stroke": stroke,
            "style": [style.tool, u64::from(style.rgba), u64::from(style.width)],
            "channels": channels.bits(),
            "points": points,
            "end": end,
        }),
        Draw::Extend { stroke, points, end } => {
            json!({"kind": "extend", "stroke": stroke, "points": points, "end": end})
        }
        Draw::Erase(strokes) => json!({"kind": "erase", "strokes": pairs(strokes)}),
        Draw::Revoke(draws) => json!({"kind": "revoke", "draws": pairs(draws)}),
        Draw::Clear => json!({"kind": "clear"}),
        Draw::Opaque(data) => json!({"kind": "opaque", "data": hex(data)}),
        Draw::Unknown(number) => json!({"kind": "unknown", "number": number}),
    }
}

/// What an encoder writes: the bytes themselves unless the case says otherwise; `None` where decoding loses
/// what a later version put there.
fn canonical(case: &Value) -> Option<&str> {
    match case.get("canonical") {
        None => case["hex"].as_str(),
        Some(canonical) => canonical.as_str(),
    }
}

fn to_msgpack(json: &Value, shape: Shape) -> Vec<u8> {
    json::to_msgpack(&serde_json::to_vec(json).unwrap(), shape).unwrap()
}

// F-1 to F-7
#[test]
fn frames_mean_what_the_vectors_say() {
    let file = file("frames.json");
    each(&file, "client", |case| {
        let bytes = unhex(&case["hex"]);
        let frame = ClientFrame::decode(&bytes).unwrap();
        assert_eq!(client_frame(&frame), case["frame"]);
        assert_eq!(twin(&bytes), case["json"]);
        if let Some(canonical) = canonical(case) {
            assert_eq!(hex(&frame.to_bytes()), canonical);
        }
        let from_json = to_msgpack(&case["json"], Shape::ClientFrame);
        assert_eq!(twin(&from_json), case["json"]);
        if case.get("canonical").is_none() {
            assert_eq!(hex(&from_json), case["hex"]);
        }
    });
    each(&file, "server", |case| {
        let bytes = unhex(&case["hex"]);
        let frame = ServerFrame::decode(&bytes).unwrap();
        assert_eq!(server_frame(&frame), case["frame"]);
        assert_eq!(twin(&bytes), case["json"]);
        if let Some(canonical) = canonical(case) {
            assert_eq!(hex(&frame.to_bytes()), canonical);
        }
    });
}

// F-5 to F-9, F-13, F-16
#[test]
fn what_is_no_frame_is_malformed() {
    let file = file("invalid-frames.json");
    each(&file, "client", |case| assert!(ClientFrame::decode(&unhex(&case["hex"])).is_err()));
    each(&file, "server", |case| assert!(ServerFrame::decode(&unhex(&case["hex"])).is_err()));
    each(&file, "client_json", |case| {
        let text = case["text"].as_str().unwrap().as_bytes();
        if let Ok(bytes) = json::to_msgpack(text, Shape::ClientFrame) {
            assert!(ClientFrame::decode(&bytes).is_err());
        }
    });
}

fn drawer(case: &Value) -> Drawer {
    Drawer {
        client: ClientId::new(case["author"].as_u64().unwrap_or(7)).unwrap(),
        role: Role::from_number(case["role"].as_u64().unwrap_or(1)).unwrap(),
    }
}

fn limits(case: &Value) -> DrawLimits {
    let limit = |name: &str| case[name].as_u64().unwrap_or(0) as usize;
    DrawLimits { bytes_per_draw: limit("bytes_per_draw"), draws_per_batch: limit("draws_per_batch") }
}

// D-7 to D-13, D-17, D-18, F-12 to F-15
#[test]
fn draws_mean_what_the_vectors_say() {
    let file = file("draws.json");
    each(&file, "draws", |case| {
        let bytes = unhex(&case["hex"]);
        let batch = [&[0x91], &bytes[..]].concat();
        // D-20: what passed is the very bytes.
        assert_eq!(check_batch(&batch, &limits(case), drawer(case)), Ok(vec![&bytes[..]]));
        let decoded = Draw::decode(&bytes).unwrap();
        assert_eq!(draw(&decoded), case["draw"]);
        if let Some(canonical) = canonical(case) {
            assert_eq!(hex(&decoded.to_bytes()), canonical);
        }
        assert_eq!(twin(&bytes), case["json"]);
        let from_json = to_msgpack(&json!([case["json"]]), Shape::Draws);
        assert_eq!(twin(&from_json), json!([case["json"]]));
        if case.get("canonical").is_none() {
            assert_eq!(hex(&from_json), hex(&batch));
        }
    });
    each(&file, "json_batches", |case| {
        let text = case["text"].as_str().unwrap().as_bytes();
        assert_eq!(hex(&json::to_msgpack(text, Shape::Draws).unwrap()), case["hex"]);
    });
}

/// The code and index of the answer to a batch.
fn refusal(batch: &[u8], case: &Value) -> (&'static str, Option<u64>) {
    match check_batch(batch, &limits(case), drawer(case)) {
        Ok(_) => ("stored", None),
        Err(BatchError::Malformed(_)) => ("malformed", None),
        Err(BatchError::TooMany { .. }) => ("too_large", None),
        Err(BatchError::Draw { index, refusal }) => {
            let code = match refusal {
                Refusal::Invalid(_) => "invalid_draw",
                Refusal::TooLarge { .. } => "too_large",
                Refusal::Forbidden(_) => "forbidden",
            };
            (code, Some(index as u64))
        }
    }
}

// D-1 to D-18
#[test]
fn the_door_refuses_what_the_vectors_say() {
    let file = file("invalid-draws.json");
    let expected = |case: &Value| (case["code"].as_str().unwrap().to_owned(), case["index"].as_u64());
    each(&file, "batches", |case| {
        let (code, index) = refusal(&unhex(&case["hex"]), case);
        assert_eq!((code.to_owned(), index), expected(case));
    });
    each(&file, "json_batches", |case| {
        let (code, index) = match json::to_msgpack(case["text"].as_str().unwrap().as_bytes(), Shape::Draws) {
            Ok(batch) => refusal(&batch, case),
            Err(_) => ("malformed", None),
        };
        assert_eq!((code.to_owned(), index), expected(case));
    });
}

#[test]
fn records_mean_what_the_vectors_say() {
    let file = file("records.json");
    each(&file, "records", |case| {
        let bytes = unhex(&case["hex"]);
        let record = Record::parse(&bytes).unwrap();
        let Identity { author, n, at } = record.identity;
        assert_eq!((author.get(), n, at), {
            let number = |name: &str| case[name].as_u64().unwrap();
            (number("author"), number("n"), number("at"))
        });
        assert_eq!(hex(record.draw), case["draw"]);
        assert_eq!(twin(&bytes), case["json"]);
        let mut encoded = Vec::new();
        record.encode(&mut encoded);
        assert_eq!(Some(hex(&encoded).as_str()), canonical(case));
        assert!(encoded.len() <= record.draw.len() + Record::OVERHEAD_BYTES);
    });
    each(&file, "invalid", |case| assert!(Record::parse(&unhex(&case["hex"])).is_err()));
}

//
#[test]
fn positions_mean_what_the_vectors_say() {
    let file = file("positions.json");
    each(&file, "positions", |case| {
        let place = read_position(&case["position"]);
        let text = case["text"].as_str().unwrap();
        assert_eq!(text.parse(), Ok(place));
        assert_eq!(place.to_string(), text);
        let heartbeat = ServerFrame::Heartbeat(place).to_bytes();
        assert_eq!(hex(&heartbeat), format!("9247{}", case["hex"].as_str().unwrap()));
        assert_eq!(ServerFrame::decode(&heartbeat), Ok(ServerFrame::Heartbeat(place)));
    });
    each(&file, "after", |case| {
        let after = match &case["after"] {
            Value::Null => After::Start,
            Value::Number(seq) => After::Seq(Seq::new(seq.as_u64().unwrap()).unwrap()),
            position => After::Position(read_position(position)),
        };
        assert_eq!(case["text"].as_str().unwrap().parse(), Ok(after));
    });
    each(&file, "invalid", |text| assert!(text.as_str().unwrap().parse::<After>().is_err()));
    each(&file, "matching", |case| {
        let (a, b) = (read_position(&case["a"]), read_position(&case["b"]));
        assert_eq!(a.matches(&b), case["match"].as_bool().unwrap());
        assert_eq!(b.matches(&a), case["match"].as_bool().unwrap());
    });
}

fn strokes(board: &Board) -> Value {
    let stroke = |stroke: &inkrelay_protocol::board::Stroke| {
        let point = |point: inkrelay_protocol::board::Point| {
            let mut values = vec![point.x, point.y];
            values.extend(point.pressure.map(i32::from));
            values.extend(point.time_ms);
            values.extend(point.tilt.map(|(x, y)| [x, y]).iter().flatten());
            assert_eq!(values.len(), stroke.channels.values_per_point());
            assert_eq!(point.pressure.is_some(), stroke.channels.contains(Channels::PRESSURE));
            values
        };
        json!({
            "author": stroke.author.get(),
            "stroke": stroke.number,
            "style": [stroke.style.tool, u64::from(stroke.style.rgba), u64::from(stroke.style.width)],
            "channels": stroke.channels.bits(),
            "points": stroke.points().map(point).collect::<Vec<_>>(),
            "closed": stroke.closed,
        })
    };
    board.strokes().map(stroke).collect()
}

// B-1 to B-20
#[test]
fn boards_show_what_the_vectors_say() {
    let file = file("boards.json");
    each(&file, "boards", |case| {
        let mut board = Board::new();
        for _ in 0..2 {
            for (record, json) in
                std::iter::zip(case["records"].as_array().unwrap(), case["log"].as_array().unwrap())
            {
                let bytes = unhex(record);
                assert_eq!(&twin(&bytes), json);
                board.apply(&Record::parse(&bytes).unwrap());
            }
            assert_eq!(strokes(&board), case["strokes"]);
            // B-20: the second round is a board of its own.
            board.reset();
            assert_eq!(strokes(&board), json!([]));
        }
    });
    let spec = std::fs::read_to_string(format!("{}/SPEC.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
    each(&file, "boards", |case| {
        for rule in case["rules"].as_array().unwrap() {
            assert!(spec.contains(&format!("- **{}** ", rule.as_str().unwrap())));
        }
    });
}
