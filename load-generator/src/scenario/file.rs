//! Scenario files: runs that are kept, in TOML. `scenario` names the scenario; every other key is one of its
//! options, spelled as on the command line.

use std::path::Path;

use toml::{Table, Value};

/// Turns a file into the words of a command line, without the program's name.
///
/// # Errors
/// When it cannot be read, or is no list of options.
pub fn words(path: &Path) -> Result<Vec<String>, String> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    parse(&text).map_err(|why| format!("{name}: {why}"))
}

/// The one option that may be given several times.
const LIST: &str = "also";

fn parse(text: &str) -> Result<Vec<String>, String> {
    let mut table: Table = toml::from_str(text).map_err(|error| error.to_string())?;
    let Some(Value::String(scenario)) = table.remove("scenario") else {
        return Err("it does not name its scenario, as scenario = \"fanout\"".to_owned());
    };
    let mut words = vec![scenario];
    for (key, value) in table {
        // As people write it elsewhere.
        let key = key.replace('_', "-");
        let values = match value {
            Value::Array(values) if key == LIST => values,
            Value::Array(_) => return Err(format!("{key} has one value, not a list")),
            value => vec![value],
        };
        for value in values {
            if value == Value::Boolean(false) {
                continue;
            }
            words.push(format!("--{key}"));
            words.push(match value {
                // Said by its name alone.
                Value::Boolean(true) => continue,
                Value::String(text) => text,
                Value::Integer(number) => number.to_string(),
                Value::Float(number) => number.to_string(),
                _ => return Err(format!("{key} is neither text nor a number")),
            });
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_a_command_line() {
        let words =
            parse("# kept\nscenario = \"fanout\"\nreaders = 500\nrate = 7.5\nalso = [1, 2]\n").unwrap();
        let (scenario, mut options) = (words[0].as_str(), words[1..].chunks(2).collect::<Vec<_>>());
        options.sort();
        assert_eq!(scenario, "fanout");
        let expected = [["--also", "1"], ["--also", "2"], ["--rate", "7.5"], ["--readers", "500"]];
        assert_eq!(options, expected);
        let flags = parse("scenario = \"fanout\"\nallow_refused = true\nother = false").unwrap();
        assert_eq!(flags, ["fanout", "--allow-refused"]);
        assert!(parse("scenario = \"fanout\"\nreaders = [1, 2]").unwrap_err().contains("readers"));
        assert!(parse("readers = 3").unwrap_err().contains("scenario"));
        assert!(parse("scenario = \"idle\"\nconnections = {}").is_err());
        assert!(parse("scenario = ").is_err());
    }
}
