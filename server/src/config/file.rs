//! The file with settings: TOML (version 1.0), read against the schema. Whatever is wrong is told with its line, and
//! with what would be right.

use std::path::Path;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::settings::{Wrong, args, is_list, is_switch, name, table};

/// Bytes of a file with settings at most: it is read whole.
const FILE_BYTES: u64 = 1024 * 1024;
/// How like a known name an unknown one is, from 0 to 1, to be taken for a slip.
const LIKENESS: f64 = 0.8;

/// What the file sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The setting's name in the schema.
    pub id: String,
    /// Its key.
    pub name: String,
    /// The line, from 1.
    pub line: usize,
    /// As they would stand on the command line.
    pub values: Vec<String>,
    /// Whether it is on or off.
    pub is_switch: bool,
}

impl Given {
    /// Whether it is a switch that is off.
    pub fn is_off(&self) -> bool {
        self.is_switch && self.values == ["false"]
    }
}

/// Reads the file.
///
/// # Errors
/// All that is wrong with it.
pub fn read(path: &Path, schema: &Command) -> Result<Vec<Given>, Wrong> {
    let cannot = |why: String| Wrong::from(format!("cannot read the settings in {}: {why}", path.display()));
    let length = std::fs::metadata(path).map_err(|error| cannot(error.to_string()))?.len();
    if length > FILE_BYTES {
        return Err(cannot(format!("it has more than {FILE_BYTES} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| cannot(error.to_string()))?;
    parse(&path.display().to_string(), &text, schema)
}

fn parse(file: &str, text: &str, schema: &Command) -> Result<Vec<Given>, Wrong> {
    let lines = Lines { file, text };
    let root = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        Wrong::from(lines.wrong(at, &format!("this is no TOML: {}", error.message())))
    })?;
    let mut reading = Reading { schema, lines, given: Vec::new(), wrong: Vec::new() };
    reading.table(None, root.get_ref());
    reading.given.sort_by_key(|given| given.line);
    if reading.wrong.is_empty() {
        Ok(reading.given)
    } else {
        reading.wrong.sort_by_key(|(at, _)| *at);
        Err(Wrong(reading.wrong.into_iter().map(|(_, why)| why).collect()))
    }
}

struct Lines<'t> {
    file: &'t str,
    text: &'t str,
}

impl Lines<'_> {
    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|b| *b == b'\n').count() + 1
    }

    fn wrong(&self, at: usize, why: &str) -> String {
        format!("{}:{}: {why}", self.file, self.line(at))
    }
}

struct Reading<'s> {
    schema: &'s Command,
    lines: Lines<'s>,
    given: Vec<Given>,
    /// With their places in the file, by which they are told.
    wrong: Vec<(usize, String)>,
}

impl Reading<'_> {
    fn wrong(&mut self, at: usize, why: &str) {
        self.wrong.push((at, self.lines.wrong(at, why)));
    }

    fn table(&mut self, within: Option<&str>, entries: &DeTable<'_>) {
        for (key, value) in entries {
            let (at, key) = (key.span().start, key.get_ref());
            match (within, value.get_ref()) {
                (None, DeValue::Table(entries)) if self.tables().iter().any(|table| *table == *key) => {
                    self.table(Some(key), entries);
                }
                (_, DeValue::Table(_)) => {
                    let near = near(key, self.tables());
                    let tables = self.tables().iter().map(|table| format!("[{table}]")).collect::<Vec<_>>();
                    let hint = near.map_or_else(
                        || format!("there are {}", tables.join(", ")),
                        |near| format!("did you mean [{near}]?"),
                    );
                    self.wrong(at, &format!("there is no table [{key}]: {hint}"));
                }
                (_, _) => self.setting(at, within, key, value),
            }
        }
    }

    fn tables(&self) -> Vec<String> {
        let mut tables: Vec<_> = args(self.schema).filter_map(table).collect();
        tables.dedup();
        tables
    }

    fn setting(&mut self, at: usize, within: Option<&str>, key: &str, value: &Spanned<DeValue<'_>>) {
        let schema = self.schema;
        let Some(arg) = args(schema).find(|arg| name(arg) == key) else {
            let hint = near(key, args(schema).map(name).map(str::to_owned).collect()).map_or_else(
                || "`inkrelay config reference` lists all".to_owned(),
                |near| format!("did you mean {near}?"),
            );
            return self.wrong(at, &format!("there is no setting {key}: {hint}"));
        };
        if arg.get_id() == "config" {
            return self.wrong(at, "a file does not name another one: give it with --config alone");
        }
        let belongs = table(arg);
        if belongs.as_deref() != within {
            let place = belongs
                .map_or_else(|| "above all tables".to_owned(), |table| format!("in the table [{table}]"));
            return self.wrong(at, &format!("{key} stands {place}"));
        }
        match values(arg, value.get_ref()).and_then(|values| check(schema, arg, &values).map(|()| values)) {
            Ok(values) => {
                let (id, line) = (arg.get_id().to_string(), self.lines.line(at));
                self.given.push(Given { id, name: key.to_owned(), line, values, is_switch: is_switch(arg) });
            }
            Err(why) => {
                // What was meant to be secret stays so, also where it is wrong.
                let shown = if arg.is_hide_env_values_set() {
                    "as it is written".to_owned()
                } else {
                    self.lines.text.get(value.span()).unwrap_or_default().to_owned()
                };
                self.wrong(at, &format!("{key} cannot be {shown}: {why}"));
            }
        }
    }
}

/// A TOML value as it would stand on the command line.
fn values(arg: &Arg, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    match value {
        DeValue::Boolean(is_on) if is_switch(arg) => Ok(vec![is_on.to_string()]),
        _ if is_switch(arg) => Err("write true or false".to_owned()),
        DeValue::Array(elements) if is_list(arg) => {
            elements.iter().map(|element| scalar(arg, element.get_ref())).collect()
        }
        _ => Ok(vec![scalar(arg, value)?]),
    }
}

fn scalar(arg: &Arg, value: &DeValue<'_>) -> Result<String, String> {
    match value {
        // One element is one value, whatever is in it.
        DeValue::String(text)
            if arg.get_value_delimiter().is_some_and(|delimiter| text.contains(delimiter)) =>
        {
            Err(format!("write a list: [\"{}\", …]", text.split(',').next().unwrap_or_default()))
        }
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().replace('_', "")),
        DeValue::Array(_) => Err("it takes one value, not a list".to_owned()),
        _ => Err(like_the_default(arg).unwrap_or_else(|| "write it in quotation marks".to_owned())),
    }
}

/// Has clap look at the values as if they stood on the command line.
fn check(schema: &Command, arg: &Arg, values: &[String]) -> Result<(), String> {
    if is_switch(arg) {
        return Ok(());
    }
    let alone = schema.clone().mut_args(|arg| arg.env(Resettable::Reset));
    let arguments = values.iter().map(|value| format!("--{}={value}", name(arg)));
    let Err(error) = alone.try_get_matches_from(arguments) else { return Ok(()) };
    Err(match (error.kind(), error.get(ContextKind::ValidValue)) {
        (ErrorKind::InvalidValue, Some(ContextValue::Strings(valid))) => {
            format!("it is one of {}", valid.join(", "))
        }
        _ => {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            let why = source.unwrap_or_else(|| "it is not taken".to_owned());
            match like_the_default(arg).filter(|_| !why.contains("write it")) {
                Some(like) => format!("{why}; {like}"),
                None => why,
            }
        }
    })
}

fn like_the_default(arg: &Arg) -> Option<String> {
    let default = arg.get_default_values().first()?.to_str()?;
    Some(format!("write it like {default}"))
}

/// The name that was probably meant.
pub fn near(name: &str, known: Vec<String>) -> Option<String> {
    let name = name.to_lowercase().replace('_', "-");
    let likeness = |known: &String| strsim::jaro_winkler(&name, known);
    let near = known.into_iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(&near) >= LIKENESS).then_some(near)
}

#[cfg(test)]
mod tests {
    use super::super::settings::schema;
    use super::*;

    fn read(text: &str) -> Result<Vec<Given>, Wrong> {
        parse("f.toml", text, &schema())
    }

    fn wrong(text: &str) -> String {
        read(text).expect_err(text).to_string()
    }

    #[test]
    fn keys_are_the_flags_names_in_the_tables_of_the_help() {
        let text = "listen = \"127.0.0.1:9000\"\nmemory = true\nallow-origin = [\"https://a\", \"https://b\"]\n\
                    [limits]\nmax-batch = 1_000\nmax-draw = 70000\n[times]\nidle-time = \"30s\"\n";
        let given: Vec<_> = read(text)
            .unwrap()
            .into_iter()
            .map(|given| (given.name, given.line, given.values.join(" ")))
            .collect();
        let expected = [
            ("listen", 1, "127.0.0.1:9000"),
            ("memory", 2, "true"),
            ("allow-origin", 3, "https://a https://b"),
            ("max-batch", 5, "1000"),
            ("max-draw", 6, "70000"),
            ("idle-time", 8, "30s"),
        ]
        .map(|(name, line, values)| (name.to_owned(), line, values.to_owned()));
        assert_eq!(given, expected);
        assert_eq!(read("").unwrap(), []);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_what_would_be_right() {
        for (text, expected) in [
            ("\nmax_draw = 1", "f.toml:2: there is no setting max_draw: did you mean max-draw?"),
            ("lisen = \"x\"", "f.toml:1: there is no setting lisen: did you mean listen?"),
            ("zzz = 1", "f.toml:1: there is no setting zzz: `inkrelay config reference` lists all"),
            ("max-draw = 1", "f.toml:1: max-draw stands in the table [limits]"),
            ("[limits]\nlisten = \"[::1]:1\"", "f.toml:2: listen stands above all tables"),
            ("[limit]\n", "f.toml:1: there is no table [limit]: did you mean [limits]?"),
            ("[zzz]\n", "f.toml:1: there is no table [zzz]: there are [limits]"),
            ("[limits]\nmax-draw = \"many\"", "f.toml:2: max-draw cannot be \"many\": "),
            ("[limits]\nmax-draw = \"many\"", "; write it like 65536, 64KiB or 1MB"),
            ("[limits]\nmax-batch = -1", "f.toml:2: max-batch cannot be -1: "),
            ("[limits]\nmax-batch = -1", "; write it like 512"),
            ("[limits]\nmax-batch = 1.5", "f.toml:2: max-batch cannot be 1.5: write it like 512"),
            ("[limits]\nmax-batch = [1]", "max-batch cannot be [1]: it takes one value, not a list"),
            ("[times]\nidle-time = 30", "idle-time cannot be 30: "),
            ("[times]\nidle-time = 30", "write it like 500ms, 5s or 2min"),
            ("sync = \"never\"", "f.toml:1: sync cannot be \"never\": it is one of always, interval"),
            ("memory = \"yes\"", "f.toml:1: memory cannot be \"yes\": write true or false"),
            ("workers = 2000", "f.toml:1: workers cannot be 2000: 2000 is not in 0..=1024"),
            ("listen = \"here\"", "; write it like 127.0.0.1:8080"),
            ("allow-origin = \"https://a,https://b\"", "write a list: [\"https://a\", …]"),
            ("allow-origin = [\"a\"]", "write it like https://draw.example"),
            ("trust-forwarded = [\"10.0.0\"]", "write it like 10.0.0.0/8"),
            ("log = \"inkrelay=loud\"", "write it like info"),
            ("config = \"other.toml\"", "a file does not name another one"),
            ("secret = 1.5", "f.toml:1: secret cannot be as it is written: write it in quotation marks"),
            ("memory = true\nmemory = true", "f.toml:2: this is no TOML: "),
            ("\n\nlisten = ", "f.toml:3: this is no TOML: "),
        ] {
            let told = wrong(text);
            assert!(told.contains(expected), "{text:?}: {told}");
        }
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once_in_the_order_of_the_lines() {
        let told = wrong("sync = \"never\"\nlisen = 1\n[limits]\nmax-draw = \"many\"\n");
        let places: Vec<_> = told.lines().map(|line| line.split(": ").next().unwrap()).collect();
        assert_eq!(places, ["f.toml:1", "f.toml:2", "f.toml:4"]);
    }
}
