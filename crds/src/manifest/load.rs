//! From the texts of files to jobs: shape, rules and options, all problems at once.
//!
//! Pure: file contents come in as texts. A job is given out exactly when its document has no
//! error; warnings stay beside it. Jobs, Secrets and ConfigMaps may be spread over files.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::document::{Covered, Kind, kind_of, walk_job};
use super::locate::{End, Locator};
use super::objects::Objects;
use super::problem::Problem;
use super::rules;
use super::substitute;
use super::tree::{self, Node, Position};
use super::walk::to_json;
use crate::checkpoint::DEFAULT_NAMESPACE;
use crate::finding::Finding;
use crate::resource::StreamingJob;

/// Largest manifest that is accepted, in bytes of its JSON.
pub const MAX_MANIFEST_BYTES: usize = 900 * 1024;
/// Largest file that is read, in bytes.
pub const MAX_FILE_BYTES: usize = 8 * 1024 * 1024;

/// The text of one file.
#[derive(Clone, Debug)]
pub struct ManifestFile {
    /// Name for messages.
    pub name: String,
    /// Contents.
    pub text: String,
}

/// A job that may be run.
#[derive(Clone, Debug)]
pub struct LoadedJob {
    /// The resource, defaults filled in.
    pub job: StreamingJob,
    /// The file that it stands in.
    pub file: String,
    /// The manifest as JSON, without defaults: what is stored for the task.
    pub document: String,
    /// Where its fields are.
    pub locator: Locator,
}

/// What a set of files holds.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Jobs without errors, in the order of the files.
    pub jobs: Vec<LoadedJob>,
    /// Secrets and ConfigMaps.
    pub objects: Objects,
    /// Errors and warnings, in the order of files and lines.
    pub problems: Vec<Problem>,
}

impl Loaded {
    /// Whether anything is refused.
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(Problem::is_error)
    }

    /// The same without the problems if nothing is refused; otherwise all problems.
    pub fn into_result(self) -> Result<Self, Vec<Problem>> {
        if self.has_errors() { Err(self.problems) } else { Ok(self) }
    }
}

/// Which triggers the queries will have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Triggers {
    /// Those of the manifests.
    AsWritten,
    /// `availableNow` all of them, whatever is written.
    AvailableNow,
}

/// Loads manifests that run as they are written.
pub fn load(files: &[ManifestFile], parameters: &BTreeMap<String, String>) -> Loaded {
    load_with(files, parameters, Triggers::AsWritten)
}

/// Loads manifests. `parameters` (from `-p name=value`) win over `spec.parameters`.
pub fn load_with(files: &[ManifestFile], parameters: &BTreeMap<String, String>, triggers: Triggers) -> Loaded {
    let mut loaded = Loaded::default();
    let mut drafts = Vec::new();
    let order: BTreeMap<&str, usize> = files.iter().enumerate().map(|(index, file)| (file.name.as_str(), index)).collect();
    for file in files {
        read_file(file, &mut loaded, &mut drafts);
    }
    if !loaded.has_errors() {
        loaded.problems.extend(unused_parameters(&drafts, parameters));
    }
    for draft in &mut drafts {
        draft.job.spec.parameters.extend(parameters.iter().map(|(name, value)| (name.clone(), value.clone())));
        let mut findings = rules::check(&draft.job, &loaded.objects);
        findings.retain(|finding| triggers == Triggers::AsWritten || finding.rule != rules::NEEDS_END);
        draft.add(findings);
    }
    let shared = rules::shared_checkpoints(drafts.iter().map(|draft| &draft.job));
    for (index, finding) in shared {
        drafts[index].add([finding]);
    }
    duplicate_jobs(&mut drafts);
    if drafts.is_empty() && loaded.problems.is_empty() {
        let file = files.first().map_or_else(String::new, |file| file.name.clone());
        let finding = Finding::error("no-job", "", "there is no StreamingJob in the files")
            .remedy("give a file with a document of `kind: StreamingJob`; docs/manifest.md has its fields");
        loaded.problems.push(Problem { file, line: 1, column: 1, finding });
    }
    for draft in drafts {
        draft.finish(parameters, &mut loaded);
    }
    loaded.problems.sort_by(|left, right| {
        let place = |problem: &Problem| (order.get(problem.file.as_str()).copied(), problem.line, problem.column);
        place(left).cmp(&place(right))
    });
    loaded
}

/// Parameters of the command line that no job declares or uses: most likely mistyped.
fn unused_parameters(drafts: &[Draft], parameters: &BTreeMap<String, String>) -> Vec<Problem> {
    let Some(first) = drafts.first() else { return Vec::new() };
    let used = drafts.iter().flat_map(|draft| substitute::used(&draft.job.spec));
    let declared = drafts.iter().flat_map(|draft| draft.job.spec.parameters.keys().cloned());
    let known: BTreeSet<String> = used.chain(declared).collect();
    let unused = parameters.keys().filter(|name| !known.contains(*name));
    unused
        .map(|name| {
            let names = || known.iter().map(String::as_str);
            let finding = Finding::error("unused-parameter", "spec.parameters", format!("-p gives `{name}`, which no manifest uses"))
                .found(name)
                .allowed(names())
                .nearest_of(name, names())
                .remedy(format!("correct the name, leave it out, or use ${{{name}}} in the manifest"));
            problem(first.locator.file(), first.locator.find("spec.parameters", End::Key), finding)
        })
        .collect()
}

struct Draft {
    job: StreamingJob,
    document: Value,
    locator: Locator,
    covered: Covered,
    problems: Vec<Problem>,
}

impl Draft {
    fn add(&mut self, findings: impl IntoIterator<Item = Finding>) {
        for finding in findings {
            if self.covered.has(&finding.path) {
                continue;
            }
            let about_name = ["unknown-", "misplaced-", "refused-", "duplicate-option", "ignored-", "reserved-key"];
            let end = if about_name.iter().any(|rule| finding.rule.starts_with(rule)) { End::Key } else { End::Value };
            let at = self.locator.find(&finding.path, end);
            self.problems.push(problem(self.locator.file(), at, finding));
        }
    }

    fn finish(self, parameters: &BTreeMap<String, String>, loaded: &mut Loaded) {
        let refused = self.problems.iter().any(Problem::is_error);
        loaded.problems.extend(self.problems);
        if refused || !self.covered.is_empty() {
            return;
        }
        let mut document = self.document;
        if !parameters.is_empty()
            && let Some(spec) = document["spec"].as_object_mut()
        {
            let known = spec.entry("parameters").or_insert_with(|| Value::Object(serde_json::Map::new()));
            for (name, value) in parameters {
                known[name] = Value::String(value.clone());
            }
        }
        loaded.jobs.push(LoadedJob {
            job: self.job,
            file: self.locator.file().to_owned(),
            document: document.to_string(),
            locator: self.locator,
        });
    }
}

fn problem(file: &str, at: Position, finding: Finding) -> Problem {
    Problem { file: file.to_owned(), line: at.line, column: at.column, finding }
}

fn read_file(file: &ManifestFile, loaded: &mut Loaded, drafts: &mut Vec<Draft>) {
    if file.text.len() > MAX_FILE_BYTES {
        let finding = Finding::error("manifest-size", "", format!("the file is larger than {MAX_FILE_BYTES} bytes"))
            .remedy("split it: the documents may be in several files");
        loaded.problems.push(problem(&file.name, Position { line: 1, column: 1 }, finding));
        return;
    }
    let (documents, errors) = tree::parse(&file.text);
    let broken = errors.iter().any(|error| error.rule != "duplicate-key");
    for error in errors {
        loaded.problems.push(problem(&file.name, error.at, Finding::error(error.rule, "", error.message)));
    }
    for node in documents.iter().filter(|node| !node.is_null()) {
        match kind_of(node) {
            Err((at, finding)) => loaded.problems.push(problem(&file.name, at, finding)),
            Ok(Kind::Job) => read_job(file, node, broken, loaded, drafts),
            Ok(Kind::Secret) => read_object(file, node, Objects::add_secret, loaded),
            Ok(Kind::ConfigMap) => read_object(file, node, Objects::add_config_map, loaded),
        }
    }
}

fn read_job(file: &ManifestFile, node: &Node, broken: bool, loaded: &mut Loaded, drafts: &mut Vec<Draft>) {
    let mut locator = Locator::new(&file.name, &file.text);
    let walked = walk_job(node, &mut locator);
    let mut problems: Vec<Problem> = walked.findings.into_iter().map(|(at, finding)| problem(&file.name, at, finding)).collect();
    let size = walked.value.to_string().len();
    if size > MAX_MANIFEST_BYTES {
        let finding = Finding::error(
            "manifest-size",
            "",
            format!("the manifest has {size} bytes as JSON, at most {MAX_MANIFEST_BYTES} are accepted"),
        );
        problems.push(problem(&file.name, node.start, finding.remedy("split the job")));
    }
    match serde_json::from_value::<StreamingJob>(walked.value.clone()) {
        Ok(job) => {
            drafts.push(Draft { job, document: walked.value, locator, covered: walked.covered, problems });
        }
        Err(error) => {
            // A rest that the walk let through, for example a quantity that is none.
            if problems.is_empty() && !broken {
                let finding = Finding::error("type", "spec", format!("cannot be read: {error}"));
                problems.push(problem(&file.name, node.start, finding));
            }
            loaded.problems.extend(problems);
        }
    }
}

fn read_object(file: &ManifestFile, node: &Node, add: fn(&mut Objects, &str, &str, Value) -> Result<(), String>, loaded: &mut Loaded) {
    let metadata = node.get("metadata");
    let text = |name: &str| metadata.and_then(|metadata| metadata.get(name)).and_then(Node::text);
    let Some(name) = text("name") else {
        let finding = Finding::error("missing-field", "metadata.name", "`metadata.name` is required");
        loaded.problems.push(problem(&file.name, node.start, finding));
        return;
    };
    let namespace = text("namespace").unwrap_or(DEFAULT_NAMESPACE);
    if let Err(message) = add(&mut loaded.objects, namespace, name, to_json(node)) {
        loaded.problems.push(problem(&file.name, node.start, Finding::error("object", "", message)));
    }
}

fn duplicate_jobs(drafts: &mut [Draft]) {
    let mut seen: BTreeMap<(String, String), String> = BTreeMap::new();
    for draft in drafts {
        let name = draft.job.metadata.name.clone().unwrap_or_default();
        let key = (crate::checkpoint::namespace_of(&draft.job).to_owned(), name.clone());
        if let Some(file) = seen.get(&key) {
            let finding = Finding::error("duplicate-name", "metadata.name", format!("job `{name}` is given twice, first in {file}"));
            draft.add([finding.remedy("choose another name, or remove one of them")]);
        } else {
            seen.insert(key, draft.locator.file().to_owned());
        }
    }
}
