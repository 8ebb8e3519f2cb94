//! The settings as they hold, and where each comes from: flag, environment, file, default, in this order.
//!
//! What the file sets and nothing before it does becomes a flag. So a value is checked by the same code wherever it comes
//! from.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;

use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory, FromArgMatches};

use super::file::{self, Given};
use super::{Alone, Config, environment};

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A flag of the command line.
    Flag,
    /// The environment.
    Environment,
    /// The file, in that line from 1.
    File(usize),
    /// Nobody set it.
    Default,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The flag without its dashes, which is also the file's key.
    pub name: String,
    /// The file's table in which it stands; none for the first ones.
    pub table: Option<String>,
    /// What holds, as it is written; empty for what is not set.
    pub values: Vec<OsString>,
    /// Where from.
    pub source: Source,
    /// Whether it is nobody else's business.
    pub is_secret: bool,
    /// Whether it is a list.
    pub is_list: bool,
    /// Whether it is on or off.
    pub is_switch: bool,
}

/// All settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// As the relay takes them.
    pub config: Config,
    pub(super) all: Vec<Setting>,
}

/// What is wrong with them, one sentence for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(pub Vec<String>);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Wrong {}

impl From<String> for Wrong {
    fn from(why: String) -> Self {
        Self(vec![why])
    }
}

/// The schema: every setting as clap knows it.
pub fn schema() -> clap::Command {
    let mut command = Alone::command().no_binary_name(true).disable_help_flag(true);
    command.build();
    environment::taken(command)
}

/// The settings of the schema, without those that the schema has for itself.
pub fn args(schema: &clap::Command) -> impl Iterator<Item = &Arg> {
    schema.get_arguments().filter(|arg| arg.get_long().is_some())
}

/// The flag without its dashes.
pub fn name(arg: &Arg) -> &str {
    arg.get_long().unwrap_or_default()
}

/// The file's table: the first words of the flag's heading in the help.
pub fn table(arg: &Arg) -> Option<String> {
    let heading = arg.get_help_heading()?;
    let words = heading.split(" (").next().unwrap_or_default();
    Some(words.to_lowercase().replace(' ', "-"))
}

/// Whether it is a flag without a value.
pub fn is_switch(arg: &Arg) -> bool {
    !arg.get_action().takes_values()
}

/// Whether it takes several values.
pub fn is_list(arg: &Arg) -> bool {
    arg.get_value_delimiter().is_some() || matches!(arg.get_action(), clap::ArgAction::Append)
}

impl Settings {
    /// From the command line's arguments behind the command, the environment, and the file that one of them names.
    ///
    /// # Errors
    /// All that is wrong in the file, or the first thing that is wrong elsewhere.
    pub fn load(arguments: &[OsString]) -> Result<Self, Wrong> {
        let schema = schema();
        let set = parse(&schema, arguments)?;
        let path: Option<&std::path::PathBuf> = set.get_one("config");
        let given = match path {
            Some(path) => read(&schema, path, &set)?,
            None => Vec::new(),
        };
        let line = |id: &str| given.iter().find(|given| given.id == id).map(|given| given.line);
        let from_file = given
            .iter()
            .flat_map(|given| flags(&given.name, given.values.iter().map(AsRef::as_ref), given.is_switch));
        let arguments: Vec<_> = from_file.chain(arguments.iter().cloned()).collect();
        Self::of(&schema, &parse(&schema, &arguments)?, line)
    }

    /// The same with other values for some of its settings.
    ///
    /// # Errors
    /// When the values do not go together.
    pub(super) fn with(&self, all: Vec<Setting>) -> Result<Self, Wrong> {
        let schema = schema().mut_args(|arg| arg.env(Resettable::Reset));
        // What is not set is not said: a default may exclude what is.
        let set = all.iter().filter(|setting| setting.source != Source::Default);
        let arguments: Vec<_> = set
            .flat_map(|setting| {
                flags(&setting.name, setting.values.iter().map(AsRef::as_ref), setting.is_switch)
            })
            .collect();
        let config = Self::of(&schema, &parse(&schema, &arguments)?, |_| None)?.config;
        Ok(Self { config, all })
    }

    /// Whether somebody set it.
    pub fn is_set(&self, name: &str) -> bool {
        self.all.iter().any(|setting| setting.name == name && setting.source != Source::Default)
    }

    fn of(
        schema: &clap::Command,
        matches: &ArgMatches,
        line: impl Fn(&str) -> Option<usize>,
    ) -> Result<Self, Wrong> {
        let config = Config::from_arg_matches(matches).map_err(|error| plain(&error))?;
        let config = config.with_secret_read()?;
        config.check()?;
        let all = args(schema).map(|arg| {
            let id = arg.get_id().as_str();
            let source = match (line(id), matches.value_source(id)) {
                (Some(line), _) => Source::File(line),
                (None, Some(ValueSource::CommandLine)) => Source::Flag,
                (None, Some(ValueSource::EnvVariable)) => Source::Environment,
                (None, _) => Source::Default,
            };
            Setting {
                name: name(arg).to_owned(),
                table: table(arg),
                values: matches.get_raw(id).unwrap_or_default().map(OsString::from).collect(),
                source,
                is_secret: arg.is_hide_env_values_set(),
                is_list: is_list(arg),
                is_switch: is_switch(arg),
            }
        });
        Ok(Self { config, all: all.collect() })
    }
}

/// A setting as flags. Their values stand behind a =, so that one that begins with a dash is no flag.
fn flags<'v>(
    name: &str,
    values: impl Iterator<Item = &'v OsStr>,
    is_switch: bool,
) -> impl Iterator<Item = OsString> {
    let flag = move |value: &OsStr| {
        let mut flag = OsString::from(format!("--{name}"));
        if !is_switch {
            flag.push("=");
            flag.push(value);
        }
        flag
    };
    values.filter(|value| !is_switch || *value == "true").map(flag).collect::<Vec<_>>().into_iter()
}

fn parse(schema: &clap::Command, arguments: &[OsString]) -> Result<ArgMatches, Wrong> {
    schema.clone().try_get_matches_from(arguments).map_err(|error| {
        let plain = plain(&error);
        match environment::blamed(schema, &error, arguments) {
            Some(blamed) => Wrong::from(format!("{plain} ({blamed})")),
            None => plain,
        }
    })
}

/// clap's own words, without the usage: whoever uses the command line has seen it from clap itself.
fn plain(error: &clap::Error) -> Wrong {
    let text = error.to_string();
    let what = text.split("\n\n").next().unwrap_or_default();
    Wrong::from(what.trim_start_matches("error: ").to_owned())
}

/// What the file sets, without what flags and the environment set or exclude.
fn read(schema: &clap::Command, path: &Path, set: &ArgMatches) -> Result<Vec<Given>, Wrong> {
    let mut given = file::read(path, schema)?;
    let is_set =
        |id: &str| matches!(set.value_source(id), Some(ValueSource::CommandLine | ValueSource::EnvVariable));
    given.retain(|given| {
        !is_set(&given.id) && !excluded_by(schema, &given.id).iter().any(|other| is_set(other))
    });
    for (index, one) in given.iter().enumerate() {
        let excluded = excluded_by(schema, &one.id);
        let other = given[..index].iter().find(|other| excluded.contains(&other.id));
        if let Some(other) = other.filter(|other| !one.is_off() && !other.is_off()) {
            return Err(Wrong::from(format!(
                "{}:{}: {} and {} exclude each other: keep one of them",
                path.display(),
                one.line,
                other.name,
                one.name
            )));
        }
    }
    Ok(given)
}

/// The settings that cannot hold beside that one.
fn excluded_by(schema: &clap::Command, id: &str) -> Vec<String> {
    let excludes = |one: &Arg, other: &str| {
        schema.get_arg_conflicts_with(one).iter().any(|conflict| conflict.get_id().as_str() == other)
    };
    let Some(own) = args(schema).find(|arg| arg.get_id().as_str() == id) else { return Vec::new() };
    let others = args(schema).filter(|arg| arg.get_id().as_str() != id);
    others
        .filter(|other| excludes(own, other.get_id().as_str()) || excludes(other, id))
        .map(|other| other.get_id().to_string())
        .collect()
}
