//! The manifests of a command line, loaded and checked once.
//!
//! A thin layer over `weir_crds::manifest`: reads the files, turns problems into one error for
//! commands that need a valid job, finds a job by name, and answers look-ups
//! of Secrets and ConfigMaps from the documents first, then from
//! `DIR/<name>/<key>`. Values are never printed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use weir_core::{Error, Result};
use weir_crds::checkpoint::namespace_of;
use weir_crds::manifest::{self, Loaded, LoadedJob, ManifestFile, ObjectData, Problem, Triggers};
use weir_crds::resource::OptionsFromSpec;
use weir_crds::{StreamingJob, annotations};
use weir_runtime::resolve::ReferenceKind;

use crate::reading::{self, Unread};

/// The files of a command line. What can be read but once, standard input and pipes, is kept; the others are read whenever they are asked for.
#[derive(Clone, Debug)]
pub struct Files {
    paths: Vec<PathBuf>,
    kept: BTreeMap<PathBuf, Result<Vec<u8>, Unread>>,
}

/// Name and text of each file.
pub type Texts = Vec<(String, Result<String, Unread>)>;

/// How standard input is written.
const STDIN: &str = "-";

impl Files {
    /// Reads what can be read but once.
    pub fn open(paths: &[PathBuf]) -> Self {
        let once = |path: &PathBuf| {
            let read = match path.to_str() {
                Some(STDIN) => reading::stream(io::stdin().lock()),
                _ if reading::is_stream(path) => fs::File::open(path).map_err(Unread::from).and_then(reading::stream),
                _ => return None,
            };
            Some((path.clone(), read))
        };
        Self { paths: paths.to_vec(), kept: paths.iter().filter_map(once).collect() }
    }

    /// The same for a process of its own: its paths, and what it is to read from standard input.
    pub fn for_another(&self) -> (Vec<PathBuf>, Vec<u8>) {
        let mut paths: Vec<PathBuf> = self.paths.iter().filter(|path| !self.kept.contains_key(*path)).cloned().collect();
        if !self.kept.is_empty() {
            paths.push(STDIN.into());
        }
        let kept: Vec<&[u8]> = self.kept.values().filter_map(|read| read.as_deref().ok()).collect();
        (paths, kept.join("\n---\n".as_bytes()))
    }

    /// Name and text of each.
    pub fn read(&self) -> Texts {
        let read = |path: &PathBuf| match self.kept.get(path) {
            Some(kept) => kept.clone().and_then(reading::text),
            None => reading::file(path),
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
        let (manifests, problems) = Self::of(Files::open(paths).read(), parameters, triggers);
        let errors: Vec<String> = problems.iter().filter(|p| p.is_error()).map(Problem::to_string).collect();
        if errors.is_empty() { Ok(manifests) } else { Err(Error::config("MANIFEST_INVALID", errors.join("\n"))) }
    }

    /// Loads the texts of files and says all that is wrong with them.
    pub fn of(files: Texts, parameters: &[(String, String)], triggers: Triggers) -> (Self, Vec<Problem>) {
        let mut texts = Vec::new();
        let mut problems = Vec::new();
        for (name, text) in files {
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
                let text = reading::file(&entry.path()).map_err(|unread| failed(io::Error::other(unread.words().0)))?;
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
    fn what_can_be_read_but_once_is_kept_and_handed_on() {
        let mut files = Files::open(&["a.yaml".into(), "/dev/null".into()]);
        assert_eq!(files.for_another(), (vec!["a.yaml".into(), "-".into()], vec![]));
        files.kept.insert("/dev/null".into(), Ok(b"a: 1".to_vec()));
        files.paths.push("/dev/fd/9".into());
        files.kept.insert("/dev/fd/9".into(), Ok(b"b: 2".to_vec()));
        assert_eq!(files.for_another(), (vec!["a.yaml".into(), "-".into()], b"b: 2\n---\na: 1".to_vec()));
        let texts = files.read();
        assert_eq!(texts[1], ("/dev/null".to_owned(), Ok("a: 1".to_owned())));
        assert!(texts[0].1.is_err() && Files::open(&["a.yaml".into()]).for_another().1.is_empty());
    }
}
