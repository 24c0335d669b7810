//! Which program a container stands for, and the command line that it gets.
//!
//! There are no images here: the test says which binary an image or a command
//! means. An image that nothing is said about cannot be pulled.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::Container;

/// A binary that plays containers.
#[derive(Clone, Debug)]
pub struct Program {
    plays: Plays,
    binary: PathBuf,
    environment: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
enum Plays {
    Image(String),
    Command(String),
    Everything,
}

impl Program {
    /// Plays all containers of an image; a `command` of the container loses its first word, the entry point.
    pub fn image(image: &str, binary: impl Into<PathBuf>) -> Self {
        Self { plays: Plays::Image(image.to_owned()), binary: binary.into(), environment: Vec::new() }
    }

    /// Plays all containers whose command's first word has this file name.
    pub fn command(name: &str, binary: impl Into<PathBuf>) -> Self {
        Self { plays: Plays::Command(name.to_owned()), binary: binary.into(), environment: Vec::new() }
    }

    /// Plays whatever no other program plays.
    pub fn everything(binary: impl Into<PathBuf>) -> Self {
        Self { plays: Plays::Everything, binary: binary.into(), environment: Vec::new() }
    }

    /// Adds a variable to the environment that the pod gives.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    pub(super) fn binary(&self) -> &PathBuf {
        &self.binary
    }

    pub(super) fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    fn rank(&self, container: &Container) -> Option<u8> {
        let entry = container.command.as_ref().and_then(|command| command.first());
        match &self.plays {
            Plays::Command(name) => entry.is_some_and(|entry| entry.rsplit('/').next() == Some(name)).then_some(0),
            Plays::Image(image) => (container.image.as_deref() == Some(image)).then_some(1),
            Plays::Everything => Some(2),
        }
    }
}

/// The program that plays a container: by command, else by image, else the one for everything.
pub(super) fn of<'a>(programs: &'a [Program], container: &Container) -> Option<&'a Program> {
    programs
        .iter()
        .filter_map(|program| Some((program.rank(container)?, program)))
        .min_by_key(|(rank, _)| *rank)
        .map(|(_, program)| program)
}

/// The arguments after the entry point.
pub(super) fn arguments(container: &Container) -> Vec<String> {
    let command = container.command.iter().flatten().skip(1);
    command.chain(container.args.iter().flatten()).cloned().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_command_comes_before_an_image() {
        let programs = [Program::everything("/e"), Program::image("weir:1", "/i"), Program::command("weir", "/c")];
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
        let mut container = Container { image: Some("weir:1".into()), args: words(&["task", "x"]), ..Container::default() };
        assert_eq!(of(&programs, &container).unwrap().binary(), &PathBuf::from("/i"));
        assert_eq!(arguments(&container), ["task", "x"]);
        container.command = words(&["/usr/bin/weir", "task"]);
        container.args = words(&["x"]);
        assert_eq!(of(&programs, &container).unwrap().binary(), &PathBuf::from("/c"));
        assert_eq!(arguments(&container), ["task", "x"]);
        assert_eq!(of(&programs, &Container::default()).unwrap().binary(), &PathBuf::from("/e"));
        assert!(of(&programs[1..], &Container::default()).is_none());
    }
}
