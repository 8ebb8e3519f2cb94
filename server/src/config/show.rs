//! The settings as people read them: a TOML file again, with where each value comes from.

use std::ffi::OsString;
use std::fmt::Write as _;

use super::settings::{Setting, Settings, Source};

/// What stands for a secret.
const HIDDEN: &str = "***";

impl Settings {
    /// All settings with their values and sources. Secrets are hidden, also passwords within addresses.
    pub fn show(&self) -> String {
        let mut text = String::new();
        let width = self.all.iter().map(|setting| setting.line().chars().count()).max().unwrap_or(0);
        let mut table = None;
        for setting in &self.all {
            if setting.table != table {
                let _ = writeln!(text, "\n[{}]", setting.table.as_deref().unwrap_or_default());
                table.clone_from(&setting.table);
            }
            let (line, source) = (setting.line(), setting.source(self.file()));
            let _ = writeln!(text, "{line:width$}  # {source}");
        }
        text
    }

    /// The file that was read.
    fn file(&self) -> String {
        let path = self.config.config.as_deref();
        path.map(|path| path.display().to_string()).unwrap_or_default()
    }
}

impl Setting {
    /// A line of TOML; a comment for what is not set or hidden, since no file could say it so.
    fn line(&self) -> String {
        match &self.values[..] {
            [] => format!("# {} is not set", self.name),
            [_] if self.is_secret => format!("# {} = {}", self.name, self.shown()),
            // Of no use in a file.
            _ if self.name == "config" => format!("# {} = {}", self.name, self.shown()),
            _ => format!("{} = {}", self.name, self.shown()),
        }
    }

    /// The value in TOML.
    pub(super) fn shown(&self) -> String {
        let one = |value: &OsString| {
            let text = value.to_string_lossy();
            if self.is_secret { quoted(&masked(&text)) } else { toml(&text) }
        };
        match &self.values[..] {
            [value] if !self.is_list => one(value),
            values => format!("[{}]", values.iter().map(one).collect::<Vec<_>>().join(", ")),
        }
    }

    fn source(&self, file: String) -> String {
        match self.source {
            Source::Flag => format!("flag --{}", self.name),
            Source::Environment => format!("environment {}", environment(&self.name)),
            Source::File(line) => format!("{file}, line {line}"),
            Source::Default => "default".to_owned(),
        }
    }
}

/// The twin of a flag.
pub fn environment(name: &str) -> String {
    format!("INKRELAY_{}", name.to_uppercase().replace('-', "_"))
}

fn toml(text: &str) -> String {
    let is_bare =
        matches!(text, "true" | "false") || text.parse::<i64>().is_ok_and(|n| n.to_string() == text);
    if is_bare { text.to_owned() } else { quoted(text) }
}

/// A basic string of TOML, which has the escapes of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\x7f', "\\u007F")
}

/// An address without its password, and nothing at all of what is no address.
fn masked(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return HIDDEN.to_owned() };
    // Behind a ? or a # there may be a password as well, or another part of the one before.
    match rest.split_once(['?', '#']) {
        Some((_, after)) if after.contains('@') => return format!("{scheme}://{HIDDEN}"),
        Some((before, _)) => return format!("{}?{HIDDEN}", masked(&format!("{scheme}://{before}"))),
        None => {}
    }
    // The last @ ends it: a password that should have been encoded may have others.
    match rest.rsplit_once('@') {
        Some((user_and_password, host)) => {
            let user = user_and_password.split(':').next().unwrap_or_default();
            let password = if user_and_password.contains(':') { format!(":{HIDDEN}") } else { String::new() };
            format!("{scheme}://{user}{password}@{host}")
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(arguments: &[&str]) -> Settings {
        Settings::load(&arguments.iter().map(OsString::from).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn each_value_is_shown_with_its_source() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f.toml");
        let text = "allow-origin = [\"https://a.example\", \"https://b.example\"]\nmemory = true\n[limits]\n\
                    max-batch = 7\nmax-rate = 9\n";
        std::fs::write(&file, text).unwrap();
        let path = file.to_str().unwrap();
        let shown = settings(&["--config", path, "--max-rate", "8"]).show();
        for (setting, source) in [
            ("allow-origin = [\"https://a.example\", \"https://b.example\"]", format!("{path}, line 1")),
            ("memory = true", format!("{path}, line 2")),
            ("max-batch = 7", format!("{path}, line 4")),
            ("max-rate = 8", "flag --max-rate".to_owned()),
            ("max-draw = \"64KiB\"", "default".to_owned()),
            ("# redis is not set", "default".to_owned()),
            ("open = false", "default".to_owned()),
            ("listen = \"127.0.0.1:8080\"", "default".to_owned()),
        ] {
            let line = shown.lines().find(|line| line.starts_with(&format!("{setting} ")));
            assert!(line.is_some_and(|line| line.ends_with(&format!("  # {source}"))), "{setting}:\n{shown}");
        }
        assert!(shown.contains("\n[limits]\n") && shown.contains("\n[times]\n"), "{shown}");
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f.toml");
        let first =
            settings(&["--data", "a \"b\"\\c", "--max-batch", "7", "--allow-origin", "https://a,https://b"]);
        std::fs::write(&file, first.show()).unwrap();
        let again = settings(&["--config", file.to_str().unwrap()]);
        let values = |settings: &Settings| {
            let others = settings.all.iter().filter(|setting| setting.name != "config");
            others.map(|setting| (setting.name.clone(), setting.values.clone())).collect::<Vec<_>>()
        };
        assert_eq!(values(&again), values(&first));
    }

    #[test]
    fn secrets_are_hidden() {
        let shown =
            settings(&["--secret", "correct horse battery", "--redis", "redis://anna:p@ss:word@h:6379/0"])
                .show();
        assert!(shown.contains("# secret = \"***\"") && !shown.contains("correct horse battery"), "{shown}");
        assert!(shown.contains("# redis = \"redis://anna:***@h:6379/0\""), "{shown}");
        assert_eq!(masked("redis://h:6379"), "redis://h:6379");
        assert_eq!(masked("redis://:secret@h"), "redis://:***@h");
        assert_eq!(masked("redis://anna@h"), "redis://anna@h");
        assert_eq!(masked("unix:/run/redis"), "***");
        assert_eq!(masked("redis://h/?password=hunter2"), "redis://h/?***");
        assert_eq!(masked("redis://anna:hunter2@h?pass=hunter2"), "redis://anna:***@h?***");
        assert_eq!(masked("redis://h/?password=hunt@er2"), "redis://***");
        assert_eq!(masked("redis://anna:hunt#er2@h"), "redis://***");
    }

    #[test]
    fn every_twin_is_the_one_that_clap_reads() {
        let schema = super::super::settings::schema();
        for arg in super::super::settings::args(&schema) {
            let twin = arg.get_env().map(|name| name.to_string_lossy().into_owned());
            assert_eq!(twin, Some(environment(super::super::settings::name(arg))));
        }
    }
}
