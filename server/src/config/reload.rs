//! A reload: what changed, what of it takes effect at once, and what waits for the next start.

use super::Wrong;
use super::settings::{Setting, Settings};

/// Settings that a reload carries out, by their names. The others wait for a restart.
///
/// Those of sessions, connections and rooms in memory hold for what begins from then on.
pub const RELOADABLE: &[&str] = &[
    "allow-origin",
    "trust-forwarded",
    "log",
    "max-draw",
    "max-batch",
    "max-message",
    "max-rate",
    "max-room",
    "max-sessions",
    "max-rooms",
    "max-connections",
    "max-address-sessions",
    "max-address-rooms",
    "max-address-strangers",
    "max-subject-rate",
    "max-subject-sessions",
    "max-subject-sockets",
    "room-memory",
    "memory-budget",
    "header-time",
    "keep-alive",
    "body-time",
    "first-frame-time",
    "idle-time",
    "heartbeat",
    "stall-time",
    "room-idle",
    "drain-delay",
    "drain-time",
];

/// What a reload does.
#[derive(Debug)]
pub struct Reload {
    /// The settings that hold from then on.
    pub settings: Settings,
    /// What takes effect, as `max-rate: 120 → 60`.
    pub changed: Vec<String>,
    /// What changed and waits for a restart, in the same words.
    pub waiting: Vec<String>,
}

impl Settings {
    /// What becomes of these settings when those are read.
    ///
    /// # Errors
    /// When what takes effect does not go together with what waits for a restart.
    pub fn reload(&self, read: &Self) -> Result<Reload, Wrong> {
        let (mut changed, mut waiting) = (Vec::new(), Vec::new());
        let settle = |(old, new): (&Setting, &Setting)| {
            if old.values == new.values {
                return new.clone();
            }
            let told = format!("{}: {} → {}", new.name, told(old), told(new));
            if RELOADABLE.contains(&new.name.as_str()) {
                changed.push(told);
                new.clone()
            } else {
                waiting.push(told);
                old.clone()
            }
        };
        // Both come from one schema, in its order.
        let all = self.all.iter().zip(&read.all).map(settle).collect();
        Ok(Reload { settings: self.with(all)?, changed, waiting })
    }
}

fn told(setting: &Setting) -> String {
    if setting.values.is_empty() { "not set".to_owned() } else { setting.shown() }
}

#[cfg(test)]
mod tests {
    use super::super::settings::{args, name, schema};
    use super::*;

    fn settings(arguments: &[&str]) -> Settings {
        Settings::load(&arguments.iter().map(std::ffi::OsString::from).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn what_changed_takes_effect_or_waits_and_is_told() {
        let old = settings(&["--max-rate", "120", "--data", "a", "--allow-origin", "https://a.example"]);
        let new = settings(&["--max-rate", "60", "--data", "b", "--max-draw", "1KiB"]);
        let reload = old.reload(&new).unwrap();
        assert_eq!(
            reload.changed,
            [
                "allow-origin: [\"https://a.example\"] → not set",
                "max-draw: \"64KiB\" → \"1KiB\"",
                "max-rate: 120 → 60"
            ]
        );
        assert_eq!(reload.waiting, ["data: \"a\" → \"b\""]);
        let config = &reload.settings.config;
        assert_eq!((config.limits.max_rate, config.limits.max_draw), (60, 1024));
        assert_eq!((config.data.to_str(), config.allow_origin.len()), (Some("a"), 0));
        let again = reload.settings.reload(&new).unwrap();
        assert_eq!((again.changed.len(), again.waiting.len()), (0, 1), "what waits is told each time");
    }

    #[test]
    fn secrets_are_not_told() {
        let reload = settings(&["--secret", "sixteen drops of rain"])
            .reload(&settings(&["--secret", "sixteen flakes of snow"]))
            .unwrap();
        assert_eq!(reload.waiting, ["secret: \"***\" → \"***\""]);
    }

    #[test]
    fn what_is_reloadable_is_a_setting() {
        let schema = schema();
        let known: Vec<_> = args(&schema).map(name).collect();
        for reloadable in RELOADABLE {
            assert!(known.contains(reloadable), "{reloadable}");
        }
    }
}
