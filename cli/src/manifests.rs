//! The manifests of a command line, loaded and checked once.
//!
//! A thin layer over `weir_crds::manifest`: reads the files, turns problems into one error for
//! commands that need a valid job, finds a job by name, and answers look-ups
//! of Secrets and ConfigMaps from the documents first, then from
//! `DIR/<name>/<key>`. Values are never printed.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

use weir_core::{Error, Result};
use weir_crds::checkpoint::namespace_of;
use weir_crds::finding::Finding;
use weir_crds::manifest::{self, Loaded, LoadedJob, ManifestFile, ObjectData, Problem, Triggers};
use weir_crds::resource::OptionsFromSpec;
use weir_crds::{StreamingJob, annotations};
use weir_runtime::resolve::ReferenceKind;

/// The files of a command line. Standard input, written `-`, is read once; the others are read whenever they are asked for.
#[derive(Clone, Debug)]
pub struct Files {
    paths: Vec<PathBuf>,
    stdin: Option<Vec<u8>>,
}

/// Why a file has no text.
#[derive(Debug)]
pub enum Unread {
    /// It cannot be read.
    Io(io::Error),
    /// Its bytes are no text.
    NotUtf8(NotUtf8),
}

/// The first byte of a file that is no UTF-8.
#[derive(Debug, PartialEq, Eq)]
pub struct NotUtf8 {
    /// The whole file, with marks in place of what is no text.
    pub lossy: String,
    /// Bytes before it.
    offset: usize,
    byte: u8,
    line: usize,
    column: usize,
}

impl NotUtf8 {
    fn of(bytes: &[u8], valid: usize) -> Self {
        let before = String::from_utf8_lossy(&bytes[..valid]);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let byte = bytes.get(valid).copied().unwrap_or_default();
        Self { lossy: String::from_utf8_lossy(bytes).into_owned(), offset: valid, byte, line, column }
    }
}

fn text(bytes: Vec<u8>) -> Result<String, Unread> {
    String::from_utf8(bytes).map_err(|error| Unread::NotUtf8(NotUtf8::of(error.as_bytes(), error.utf8_error().valid_up_to())))
}

impl Unread {
    /// What is wrong with the file, and where in it.
    fn problem(&self, file: String) -> Problem {
        let (line, column, message, remedy) = match self {
            Self::Io(error) => (1, 1, format!("the file cannot be read: {error}"), "give the path of a manifest that is there"),
            Self::NotUtf8(at) => (
                at.line,
                at.column,
                format!("the file is not UTF-8: the byte 0x{:02x} after {} bytes is no part of a character", at.byte, at.offset),
                "save the file as UTF-8; a text in Latin-1 is converted by `iconv -f LATIN1 -t UTF-8`",
            ),
        };
        Problem { file, line, column, finding: Finding::error("file", "", message).remedy(remedy) }
    }
}

impl Files {
    /// Reads standard input if it is among the files.
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        let mut stdin = None;
        if paths.iter().any(|path| path == Path::new("-")) {
            let mut bytes = Vec::new();
            let read = io::stdin().read_to_end(&mut bytes);
            read.map_err(|e| Error::retryable("STDIN_NOT_READ", "standard input cannot be read").with_source(e))?;
            stdin = Some(bytes);
        }
        Ok(Self { paths: paths.to_vec(), stdin })
    }

    /// What standard input had, nothing if it is not among the files.
    pub fn stdin(&self) -> &[u8] {
        self.stdin.as_deref().unwrap_or_default()
    }

    /// Name and text of each.
    pub fn read(&self) -> Vec<(String, Result<String, Unread>)> {
        let read = |path: &PathBuf| match &self.stdin {
            Some(bytes) if path == Path::new("-") => text(bytes.clone()),
            _ => fs::read(path).map_err(Unread::Io).and_then(text),
        };
        self.paths.iter().map(|path| (path.display().to_string(), read(path))).collect()
    }
}

/// Documents of the given files.
#[derive(Debug)]
pub struct Manifests {
    loaded: Loaded,
}

impl Manifests {
    /// Loads files; any problem is an error of class Config with all of them in it.
    pub fn load(paths: &[PathBuf], parameters: &[(String, String)], triggers: Triggers) -> Result<Self> {
        let files = Files { paths: paths.to_vec(), stdin: None };
        let (manifests, problems) = Self::read(&files, parameters, triggers);
        let errors: Vec<String> = problems.iter().filter(|p| p.is_error()).map(Problem::to_string).collect();
        if errors.is_empty() { Ok(manifests) } else { Err(Error::config("MANIFEST_INVALID", errors.join("\n"))) }
    }

    /// Loads files and says all that is wrong with them.
    pub fn read(files: &Files, parameters: &[(String, String)], triggers: Triggers) -> (Self, Vec<Problem>) {
        let mut texts = Vec::new();
        let mut problems = Vec::new();
        for (name, text) in files.read() {
            match text {
                Ok(text) => texts.push(ManifestFile { name, text }),
                Err(unread) => problems.push(unread.problem(name)),
            }
        }
        let mut loaded = manifest::load_with(&texts, &parameters.iter().cloned().collect(), triggers);
        if problems.is_empty() {
            problems = std::mem::take(&mut loaded.problems);
        }
        (Self { loaded }, problems)
    }

    /// Whether what an `optionsFrom` entry names is among the files.
    pub fn has(&self, namespace: &str, entry: &OptionsFromSpec) -> bool {
        self.loaded.objects.find(namespace, entry).is_some()
    }

    /// The jobs with their places in the files.
    pub fn loaded_jobs(&self) -> impl Iterator<Item = &LoadedJob> {
        self.loaded.jobs.iter()
    }

    /// The file that a job is in.
    pub fn file_of(&self, job: &StreamingJob) -> String {
        let found = self.loaded.jobs.iter().find(|loaded| std::ptr::eq(&loaded.job, job));
        found.map(|loaded| loaded.file.clone()).unwrap_or_default()
    }

    /// All documents as one YAML text, for the tasks of an accepted generation.
    pub fn document(&self) -> String {
        let secrets = self.loaded.objects.secrets.iter().map(|(key, data)| object("Secret", "stringData", key, data));
        let maps = self.loaded.objects.config_maps.iter().map(|(key, data)| object("ConfigMap", "data", key, data));
        let jobs = self.loaded.jobs.iter().map(|loaded| loaded.document.clone());
        // JSON is YAML, so one document a line will do.
        jobs.chain(secrets).chain(maps).collect::<Vec<_>>().join("\n---\n")
    }

    /// All jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &StreamingJob> {
        self.loaded.jobs.iter().map(|loaded| &loaded.job)
    }

    /// One job.
    pub fn job(&self, namespace: &str, name: &str) -> Result<&StreamingJob> {
        let is_it = |job: &&StreamingJob| job.metadata.name.as_deref() == Some(name) && namespace_of(job) == namespace;
        self.jobs().find(is_it).ok_or_else(|| {
            let known: Vec<String> =
                self.jobs().map(|j| format!("{}/{}", namespace_of(j), j.metadata.name.as_deref().unwrap_or_default())).collect();
            Error::config("JOB_NOT_FOUND", format!("the manifests hold no job {namespace}/{name}; they hold [{}]", known.join(", ")))
        })
    }

    /// Keys and values of a Secret or ConfigMap.
    pub fn lookup(&self, namespace: &str, kind: ReferenceKind, name: &str, dir: Option<&Path>) -> Result<BTreeMap<String, String>> {
        let objects = &self.loaded.objects;
        let (documents, word) = match kind {
            ReferenceKind::Secret => (&objects.secrets, "Secret"),
            ReferenceKind::ConfigMap => (&objects.config_maps, "ConfigMap"),
        };
        if let Some(data) = documents.get(&(namespace.to_owned(), name.to_owned())) {
            return Ok(data.0.clone());
        }
        let missing = || {
            let place = dir.map_or_else(
                || "give --secrets-dir DIR with DIR/<name>/<key>".to_owned(),
                |dir| format!("there is no folder {}", dir.join(name).display()),
            );
            Error::config(
                "REFERENCE_NOT_FOUND",
                format!("the {word} {name} is in none of the files; {place}, or add a document of that kind"),
            )
        };
        let folder = dir.map(|dir| dir.join(name)).filter(|folder| folder.is_dir()).ok_or_else(missing)?;
        let failed = |e| {
            Error::config("REFERENCE_NOT_READ", format!("could not read {}; make its files readable texts", folder.display()))
                .with_source(e)
        };
        let mut values = BTreeMap::new();
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let key = entry.file_name().to_string_lossy().into_owned();
            // Mounted volumes hold `..data` links beside the keys.
            if !key.starts_with("..") && entry.path().is_file() {
                let text = fs::read_to_string(entry.path()).map_err(failed)?;
                values.insert(key, text.trim_end_matches('\n').to_owned());
            }
        }
        Ok(values)
    }
}

fn object(kind: &str, field: &str, (namespace, name): &(String, String), data: &ObjectData) -> String {
    serde_json::json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": namespace, "name": name}, field: data.0}).to_string()
}

fn annotation<'a>(job: &'a StreamingJob, name: &str) -> Option<&'a str> {
    job.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// The epoch of the annotation `weir.dev/adopt-checkpoint`.
pub fn adopted_epoch(job: &StreamingJob) -> Option<u64> {
    annotation(job, annotations::ADOPT_CHECKPOINT)?.parse().ok()
}

/// The token of the annotation `weir.dev/run-now`.
pub fn run_now_token(job: &StreamingJob) -> Option<String> {
    annotation(job, annotations::RUN_NOW).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_that_is_no_text_is_told_where_it_is_not() {
        let Unread::NotUtf8(found) = text(b"a: 1\n# gr\xc3\xbc\xdfe\n".to_vec()).unwrap_err() else { panic!("it was read") };
        assert_eq!((found.offset, found.byte, found.line, found.column), (11, 0xdf, 2, 6));
        assert_eq!(found.lossy, "a: 1\n# gr\u{fc}\u{fffd}e\n");
        let problem = Unread::NotUtf8(found).problem("job.yaml".to_owned());
        assert_eq!((problem.line, problem.column), (2, 6));
        let words = problem.to_string();
        assert!(words.starts_with("job.yaml:2:6") && words.contains("0xdf after 11 bytes") && words.contains("UTF-8"), "{words}");
        assert_eq!(text(b"a: 1".to_vec()).unwrap(), "a: 1");
        assert_eq!(NotUtf8::of(b"\xff", 0).column, 1);
    }
}
