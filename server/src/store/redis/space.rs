//! How full Redis is.

use redis::Value;

use super::call::Call;
use super::link::{Link, Repeat};
use crate::store::Space;

/// Needs the right to `INFO` as a command; `None` without it.
pub(super) async fn of(link: &Link) -> Option<Space> {
    let info = Call::Command { name: "INFO", args: &[b"memory"] };
    match link.run(&info, Repeat::Safe).await.ok()? {
        Value::VerbatimString { text, .. } => read(&text),
        Value::BulkString(bytes) => read(&String::from_utf8_lossy(&bytes)),
        _ => None,
    }
}

/// A `maxmemory` of 0 is no limit.
fn read(info: &str) -> Option<Space> {
    let find = |name: &str| {
        let lines = info.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(key, _)| *key == name).find_map(|(_, value)| value.trim().parse::<u64>().ok())
    };
    Some(Space { used: find("used_memory")?, limit: find("maxmemory").filter(|limit| *limit > 0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_none() {
        let info =
            |max: u64| format!("# Memory\r\nused_memory:4711\r\nused_memory_rss:9\r\nmaxmemory:{max}\r\n");
        assert_eq!(read(&info(9000)), Some(Space { used: 4711, limit: Some(9000) }));
        assert_eq!(read(&info(0)), Some(Space { used: 4711, limit: None }));
        assert_eq!(read("# Memory"), None);
    }
}
