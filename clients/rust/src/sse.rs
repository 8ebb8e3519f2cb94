//! Server-sent events, as far as the relay uses them (WHATWG HTML, section 9.2.6).

/// Bytes of one event at most; a reset's part is the longest.
const EVENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// Empty for a record.
    pub(crate) event: String,
    /// The position; empty when there is none.
    pub(crate) id: String,
    /// Its lines, joined.
    pub(crate) data: String,
}

/// Cuts a stream of bytes into events.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    line: Vec<u8>,
    /// A carriage return was the last byte, so that a line feed right after it ends nothing.
    after_return: bool,
    event: SseEvent,
    has_data: bool,
    bytes: usize,
}

impl SseParser {
    /// Takes the next bytes and returns the events that are whole now.
    ///
    /// # Errors
    /// When an event is longer than this client holds.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, &'static str> {
        let mut events = Vec::new();
        for byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => events.extend(self.end_line()),
                _ => {
                    self.bytes += 1;
                    if self.bytes > EVENT_BYTES_MAX {
                        return Err("the server sent an event of more than 64 MiB");
                    }
                    self.line.push(*byte);
                }
            }
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            self.bytes = 0;
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let line = String::from_utf8_lossy(&line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event.event = value.to_owned(),
            "id" => self.event.id = value.to_owned(),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // Comments keep the line open; retry times are the client's own.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = ": hello\n\nid: 1.1.7.1.5\ndata: [7,1,5,[4]]\n\nevent: reset\r\nid:1.2.7.2.6\r\ndata: a\r\ndata:b\r\n\r\nid: 9\n\ndata: unfinished";

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        let mut whole = SseParser::default();
        let expected = whole.push(STREAM.as_bytes()).unwrap();
        assert_eq!(expected.len(), 2);
        assert_eq!((expected[0].id.as_str(), expected[0].data.as_str()), ("1.1.7.1.5", "[7,1,5,[4]]"));
        assert_eq!((expected[1].event.as_str(), expected[1].data.as_str()), ("reset", "a\nb"));
        for size in 1..20 {
            let mut parser = SseParser::default();
            let cut = STREAM.as_bytes().chunks(size).flat_map(|chunk| parser.push(chunk).unwrap());
            assert_eq!(cut.collect::<Vec<_>>(), expected, "cut every {size} bytes");
        }
    }
}
