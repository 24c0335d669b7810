//! One row per option: name, type, default, documentation, origin and rules.
//!
//! The parser, the errors for unknown options and the reference page all read these rows,
//! so an option exists exactly when it has a row. Names compare without regard to case, as
//! in Spark's `CaseInsensitiveMap`.

use super::kind::Kind;

/// What an input or output is used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A stream.
    Source,
    /// A static input, read again for each batch.
    Table,
    /// Where rows go.
    Sink,
}

impl Role {
    /// The word for texts.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Source => "source",
            Role::Table => "static table",
            Role::Sink => "sink",
        }
    }
}

/// What giving an option does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is obeyed.
    Obeyed,
    /// It is accepted with a warning that says why nothing comes of it.
    Ignored(&'static str),
    /// It is refused with this sentence.
    Refused(&'static str),
}

/// One option of a format.
#[derive(Clone, Copy, Debug)]
pub struct OptionRow {
    /// Name in Spark's spelling.
    pub name: &'static str,
    /// Other names of the same option.
    pub aliases: &'static [&'static str],
    /// What values look like.
    pub kind: Kind,
    /// Value when it is left out; `None`: nothing is set.
    pub default: Option<&'static str>,
    /// What it means, with unit.
    pub doc: &'static str,
    /// Where the meaning comes from: a Spark class, or Weir.
    pub origin: &'static str,
    /// What it may be given for.
    pub roles: &'static [Role],
    /// Whether it must be given.
    pub required: bool,
    /// Whether values are kept out of messages.
    pub secret: bool,
    /// What giving it does.
    pub effect: Effect,
    /// Text of the error for a bad value, with `{}` for the value; `None`: by the kind.
    pub bad_value: Option<&'static str>,
}

impl OptionRow {
    /// A row for all roles, optional, without default.
    pub const fn new(name: &'static str, kind: Kind, doc: &'static str, origin: &'static str) -> Self {
        Self {
            name,
            aliases: &[],
            kind,
            default: None,
            doc,
            origin,
            roles: &[Role::Source, Role::Table, Role::Sink],
            required: false,
            secret: false,
            effect: Effect::Obeyed,
            bad_value: None,
        }
    }

    /// Sets the default.
    pub const fn default(mut self, value: &'static str) -> Self {
        self.default = Some(value);
        self
    }

    /// Sets the roles.
    pub const fn roles(mut self, roles: &'static [Role]) -> Self {
        self.roles = roles;
        self
    }

    /// Only for inputs.
    pub const fn read(self) -> Self {
        self.roles(&[Role::Source, Role::Table])
    }

    /// Only for streams.
    pub const fn stream(self) -> Self {
        self.roles(&[Role::Source])
    }

    /// Only for static inputs.
    pub const fn table(self) -> Self {
        self.roles(&[Role::Table])
    }

    /// Only for sinks.
    pub const fn write(self) -> Self {
        self.roles(&[Role::Sink])
    }

    /// Makes it required.
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Sets other names.
    pub const fn alias(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// Accepted without effect.
    pub const fn ignored(mut self, why: &'static str) -> Self {
        self.effect = Effect::Ignored(why);
        self
    }

    /// Refused.
    pub const fn refused(mut self, why: &'static str) -> Self {
        self.effect = Effect::Refused(why);
        self
    }

    /// Sets the text for a bad value.
    pub const fn bad_value(mut self, text: &'static str) -> Self {
        self.bad_value = Some(text);
        self
    }

    /// Whether this row has the name, without regard to case.
    pub fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name) || self.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
    }
}
