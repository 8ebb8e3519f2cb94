//! What must hold of any bytes at all. The fuzz targets in `fuzz/` check the same, with this file.

use inkrelay_protocol::draw::{Drawer, check_batch};
use inkrelay_protocol::json::{self, Shape};
use inkrelay_protocol::limits::DrawLimits;
use inkrelay_protocol::{Board, ClientFrame, ClientId, Draw, Identity, Record, Role, ServerFrame};

/// Holds the door to what it lets through.
pub fn batch(bytes: &[u8]) {
    const UNLIMITED: DrawLimits = DrawLimits { bytes_per_draw: 0, draws_per_batch: 0 };
    for (client, role) in [(0, Role::Drawer), (7, Role::Drawer), (7, Role::Moderator)] {
        let drawer = Drawer { client: ClientId::new(client).expect("it is small"), role };
        let Ok(draws) = check_batch(bytes, &UNLIMITED, drawer) else { continue };

        let all = draws.concat();
        assert!(bytes.ends_with(&all) && matches!(bytes.len() - all.len(), 1 | 3 | 5), "bytes got lost");
        let mut board = Board::new();
        for draw in &draws {
            assert!(Draw::decode(draw).is_ok(), "what passes can be read");
            board.apply(&Record { identity: Identity { author: drawer.client, n: 1, at: 0 }, draw });
        }
        assert!(board.strokes().count() <= draws.len());

        let again = json::to_msgpack(&json_of(bytes), Shape::Draws).expect("what passes can be told in JSON");
        assert!(check_batch(&again, &UNLIMITED, drawer).is_ok(), "and passes again when it comes back");
    }
}

/// Holds the readers of frames, records and JSON to what they read.
pub fn message(bytes: &[u8]) {
    if let Ok(frame) = ClientFrame::decode(bytes) {
        assert_eq!(ClientFrame::decode(&frame.to_bytes()), Ok(frame));
    }
    if let Ok(frame) = ServerFrame::decode(bytes) {
        assert_eq!(ServerFrame::decode(&frame.to_bytes()), Ok(frame));
        json_of(bytes);
    }
    if let Ok(record) = Record::parse(bytes) {
        Board::new().apply(&record);
        assert!(serde_json::from_slice::<serde_json::Value>(&json_of(bytes)).is_ok());
    }
    for shape in [Shape::ClientFrame, Shape::Draws] {
        if let Ok(converted) = json::to_msgpack(bytes, shape) {
            let back = json_of(&converted);
            assert_eq!(json::to_msgpack(&back, shape), Ok(converted), "JSON is the same after a round");
        }
    }
}

fn json_of(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    json::from_msgpack(bytes, &mut text).expect("whole MessagePack has a JSON twin");
    text
}
