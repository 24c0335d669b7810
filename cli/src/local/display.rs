//! What a person or a program sees while jobs run.
//!
//! `json`: one event a line on stdout, console output on stderr. Live lines
//! (indicatif) on a terminal: one per query with batch, rows, rates and
//! backlog. Plain lines elsewhere. Display never decides and never blocks a
//! task: it is fed from the runner's own channel.

use std::collections::{BTreeMap, VecDeque};
use std::io::IsTerminal;

use chrono::{DateTime, Utc};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle as BarStyle};
use parking_lot::Mutex;
use serde_json::{Value, json};
use weir_runtime::query::report::{BAD_RECORDS, MALFORMED_RECORDS};
use weir_supervisor::time::rfc3339;
use weir_supervisor::waits::Wait;
use weir_supervisor::{Action, Event};

use super::child::Saying;
use crate::arguments::ProgressStyle;
use crate::output::{say, show};

/// A job, for labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobName {
    /// Namespace.
    pub namespace: String,
    /// Job.
    pub job: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Live,
    Plain,
    Json,
    Silent,
}

/// The display of a runner.
pub struct Display {
    style: Style,
    lines: MultiProgress,
    bars: Mutex<BTreeMap<String, QueryLine>>,
    /// What was said in full elsewhere on stderr, the newest last.
    told: Mutex<VecDeque<String>>,
}

/// Words remembered as told.
const TOLD: usize = 16;

/// The live line of one query.
#[derive(Clone)]
struct QueryLine {
    bar: ProgressBar,
    read: u64,
    backlog: Option<u64>,
    /// The newest progress record, for when only the backlog changes.
    progress: Option<Value>,
}

impl QueryLine {
    /// Says what is known now.
    fn say(&self) {
        if let Some(progress) = &self.progress {
            self.bar.set_message(progress_line(progress, self.backlog));
            self.bar.tick();
        }
    }
}

/// Whether a query ends when all that is there has been read; then its line is
/// a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// It goes on for ever.
    Endless,
    /// It ends with what is there.
    Bounded,
}

impl Display {
    /// The display that the arguments ask for.
    pub fn new(asked: ProgressStyle) -> Self {
        let style = match asked {
            ProgressStyle::Auto if std::io::stderr().is_terminal() => Style::Live,
            ProgressStyle::Auto => Style::Plain,
            ProgressStyle::Bar => Style::Live,
            ProgressStyle::Json => Style::Json,
            ProgressStyle::None => Style::Silent,
        };
        Self { style, lines: MultiProgress::new(), bars: Mutex::default(), told: Mutex::default() }
    }

    /// Notes that a failure was said in full, by a task's log or the runner's: lines do not repeat it.
    pub fn has_told(&self, words: &str) {
        let mut told = self.told.lock();
        if !words.is_empty() && !told.iter().any(|known| known == words) {
            told.push_back(words.to_owned());
            if told.len() > TOLD {
                told.pop_front();
            }
        }
    }

    /// Whether the words were said.
    pub fn is_told(&self, words: &str) -> bool {
        untold(words, self.told.lock().iter()).is_empty()
    }

    /// Shows what a child said.
    pub fn saying(&self, name: &JobName, saying: &Saying) {
        match saying {
            Saying::Output { line } => self.output(line),
            Saying::Event { task, event } => self.query_event(name, task, event),
        }
    }

    fn output(&self, line: &str) {
        match self.style {
            Style::Json => say(line),
            Style::Live => self.lines.suspend(|| show(line)),
            Style::Plain | Style::Silent => show(line),
        }
    }

    fn query_event(&self, name: &JobName, task: &str, event: &Value) {
        match self.style {
            Style::Json => {
                let mut labelled = json!({"event": event["event"], "namespace": name.namespace, "job": name.job, "task": task});
                if let (Some(labels), Some(fields)) = (labelled.as_object_mut(), event.as_object()) {
                    labels.extend(fields.iter().map(|(key, value)| (key.clone(), value.clone())));
                }
                show(&labelled.to_string());
            }
            Style::Plain if event["event"] == "progress" => {
                let progress = &event["progress"];
                let query = progress["name"].as_str().unwrap_or_default();
                say(&format!("{}/{task}/{query} {}", name.job, progress_line(progress, None)));
            }
            Style::Live if event["event"] == "progress" => {
                let progress = &event["progress"];
                let query = progress["name"].as_str().unwrap_or_default();
                self.change(&format!("{}/{task}/{query}", name.job), |line| {
                    line.read += progress["numInputRows"].as_u64().unwrap_or(0);
                    line.bar.set_position(line.read);
                    line.progress = Some(progress.clone());
                    line.say();
                });
            }
            Style::Plain | Style::Live | Style::Silent => {}
        }
    }

    /// Shows what a query has not read yet, as its task last answered.
    pub fn backlog(&self, name: &JobName, task: &str, query: &str, backlog: Option<u64>, extent: Extent) {
        if self.style != Style::Live {
            return;
        }
        self.change(&format!("{}/{task}/{query}", name.job), |line| {
            let is_news = line.backlog != backlog;
            line.backlog = backlog;
            if let (Extent::Bounded, Some(left)) = (extent, backlog) {
                set_template(&line.bar, "{bar:24} {prefix}  {msg}");
                line.bar.set_length(line.read + left);
            }
            if is_news {
                line.say();
            }
        });
    }

    fn change(&self, label: &str, change: impl FnOnce(&mut QueryLine)) {
        let mut bars = self.bars.lock();
        let made = || {
            let bar = self.lines.add(ProgressBar::new_spinner());
            set_template(&bar, "{spinner} {prefix}  {msg}");
            bar.set_prefix(label.to_owned());
            QueryLine { bar, read: 0, backlog: None, progress: None }
        };
        change(bars.entry(label.to_owned()).or_insert_with(made));
    }

    /// Shows an order that is carried out.
    pub fn action(&self, name: &JobName, action: &Action) {
        if self.style != Style::Json {
            return;
        }
        let (order, task, epoch) = match action {
            Action::StartTask { task, epoch, .. } => ("start", task, epoch),
            Action::StopTask { task, epoch, .. } => ("stop", task, epoch),
            Action::KillTask { task, epoch } => ("kill", task, epoch),
            Action::ForceRemoveTask { task, epoch } => ("forceRemove", task, epoch),
            Action::ReleaseTask { .. } | Action::ClearTask { .. } | Action::ApplyLiveConfig { .. } => return,
        };
        let line = json!({"event": "task", "namespace": name.namespace, "job": name.job, "task": task, "order": order, "epoch": epoch});
        show(&line.to_string());
    }

    /// Shows an event of the supervisor.
    pub fn event(&self, name: &JobName, event: &Event) {
        self.note(name, event.kind().as_str(), event.reason.as_str(), &event.note, Value::Null);
    }

    /// Shows what is waited for before something begins.
    pub fn wait(&self, name: &JobName, wait: &Wait, now: DateTime<Utc>) {
        self.note(name, "Normal", "Waiting", &wait.sentence(now), json!({"until": rfc3339(wait.until)}));
    }

    /// One line about a job.
    fn note(&self, name: &JobName, kind: &str, reason: &str, note: &str, more: Value) {
        let shorter;
        let note = if self.style == Style::Json {
            note
        } else {
            shorter = untold(note, self.told.lock().iter());
            if shorter.is_empty() && !note.is_empty() {
                return;
            }
            &shorter
        };
        match self.style {
            Style::Json => {
                let mut line =
                    json!({"event": "run", "namespace": name.namespace, "job": name.job, "type": kind, "reason": reason, "note": note});
                if let (Some(line), Value::Object(more)) = (line.as_object_mut(), more) {
                    line.extend(more);
                }
                show(&line.to_string());
            }
            Style::Live => self.lines.suspend(|| say(&format!("{}: {}", name.job, with_reason(reason, note)))),
            Style::Plain => say(&format!("{}: {}", name.job, with_reason(reason, note))),
            Style::Silent => {}
        }
    }

    /// Leaves the last state of the live lines on the screen.
    pub fn close(&self) {
        for line in self.bars.lock().values() {
            line.bar.abandon();
        }
    }
}

/// A note after its reason, unless it begins with that word.
fn with_reason(reason: &str, note: &str) -> String {
    let begins_with_it = note.get(..reason.len()).is_some_and(|head| head.eq_ignore_ascii_case(reason));
    if begins_with_it { note.to_owned() } else { format!("{reason} {note}") }
}

/// A note without what was said before. Notes may have been cut: where the beginning of a saying stands, the rest is its.
fn untold<'a>(note: &str, told: impl Iterator<Item = &'a String>) -> String {
    const BEGINNING: usize = 60;
    let mut left = note.to_owned();
    for words in told {
        let head = &words[..words.floor_char_boundary(BEGINNING)];
        if left.contains(words) {
            left = left.replace(words, "");
        } else if let Some(at) = left.find(head).filter(|_| head.len() < words.len()) {
            left.truncate(at);
        }
    }
    left.trim_end_matches([' ', ':', ';', '\n']).to_owned()
}

fn set_template(bar: &ProgressBar, template: &str) {
    if let Ok(style) = BarStyle::with_template(template) {
        bar.set_style(style);
    }
}

/// One line about a batch.
fn progress_line(progress: &Value, backlog: Option<u64>) -> String {
    let rate = |key: &str| progress[key].as_f64().map_or_else(|| "-".to_owned(), |rate| format!("{rate}"));
    let backlog = backlog.map_or_else(String::new, |left| format!("  backlog {left}"));
    format!(
        "batch {}  {} rows  in {}/s  processed {}/s  {} ms{backlog}{}{}",
        progress["batchId"],
        progress["numInputRows"],
        rate("inputRowsPerSecond"),
        rate("processedRowsPerSecond"),
        progress["batchDuration"],
        malformed(progress),
        observed(progress)
    )
}

/// Records of the batch that could not be decoded, where there are any, and how many of them have their own place.
fn malformed(progress: &Value) -> String {
    let count = |part: &Value, figure: &str| part["metrics"][figure].as_str().and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
    let sources = progress["sources"].as_array().into_iter().flatten();
    let malformed = sources.map(|source| count(source, MALFORMED_RECORDS)).sum::<u64>();
    let told = |word: &str, count: u64| if count == 0 { String::new() } else { format!("  {word} {count}") };
    told("malformed", malformed) + &told("bad records", count(&progress["sink"], BAD_RECORDS))
}

/// The metrics of `observe`, by observation.
fn observed(progress: &Value) -> String {
    let observations = progress["observedMetrics"].as_object().into_iter().flatten();
    let of_one = |(name, metrics): (&String, &Value)| {
        let metrics = metrics.as_object().into_iter().flatten().map(|(metric, value)| format!("{metric}={}", plain(value)));
        format!("  {name}: {}", metrics.collect::<Vec<_>>().join(" "))
    };
    observations.map(of_one).collect()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_was_said_is_not_said_again() {
        let failure =
            format!("[CAST_INVALID_INPUT] query q: the value 'x' cannot be cast to BIGINT\nbecause {}", "it is malformed ".repeat(9));
        let display = Display::new(ProgressStyle::None);
        let shown = |note: &str| untold(note, display.told.lock().iter());
        assert_eq!(shown("task t: failed"), "task t: failed");
        display.has_told(&failure);
        display.has_told(&failure);
        assert_eq!(shown(&format!("task t: {failure}")), "task t");
        assert_eq!(shown(&format!("task t: {}", &failure[..100])), "task t", "a note that was cut");
        assert_eq!(
            shown("run 1 failed: task t, CAST_INVALID_INPUT, exit code 20"),
            "run 1 failed: task t, CAST_INVALID_INPUT, exit code 20"
        );
        assert!(display.is_told(&failure) && !display.is_told("stopped on request"));
        (0..TOLD).for_each(|number| display.has_told(&format!("failure {number}")));
        assert!(!display.is_told(&failure), "what was said long ago may be said again");
    }

    #[test]
    fn a_word_is_not_said_twice() {
        assert_eq!(with_reason("Waiting", "waiting for the backoff"), "waiting for the backoff");
        assert_eq!(with_reason("RunStarted", "run 1 begins"), "RunStarted run 1 begins");
        assert_eq!(with_reason("Waiting", "wait"), "Waiting wait");
    }

    #[test]
    fn a_backlog_that_goes_is_seen_without_another_batch() {
        let name = JobName { namespace: "default".to_owned(), job: "j".to_owned() };
        let display = Display::new(ProgressStyle::Bar);
        let message = || display.bars.lock()["j/t/q"].bar.message();
        display.backlog(&name, "t", "q", Some(9), Extent::Endless);
        display.query_event(&name, "t", &json!({"event": "progress", "progress": {"name": "q", "batchId": 1}}));
        assert!(message().contains("backlog 9"), "{}", message());
        display.backlog(&name, "t", "q", Some(0), Extent::Endless);
        assert!(message().contains("backlog 0"), "{}", message());
        display.backlog(&name, "t", "q", None, Extent::Endless);
        assert!(!message().contains("backlog"), "{}", message());
    }

    #[test]
    fn a_line_tells_of_malformed_records_and_observations_where_there_are_any() {
        let mut progress = json!({
            "batchId": 7, "numInputRows": 10, "processedRowsPerSecond": 20.5, "batchDuration": 488,
            "sources": [{"metrics": {}}, {"metrics": {"maxOffsetsBehindLatest": "3"}}],
        });
        let bare = "batch 7  10 rows  in -/s  processed 20.5/s  488 ms";
        assert_eq!(progress_line(&progress, None), bare);
        progress["sources"][0]["metrics"] = json!({MALFORMED_RECORDS: "2"});
        progress["sources"][1]["metrics"] = json!({MALFORMED_RECORDS: "1"});
        progress["observedMetrics"] = json!({"quality": {"bad": 3, "worst": "x y"}, "size": {"rows": 10}});
        let more = "  backlog 4  malformed 3  quality: bad=3 worst=x y  size: rows=10";
        assert_eq!(progress_line(&progress, Some(4)), format!("{bare}{more}"));
        progress["sink"] = json!({"metrics": {BAD_RECORDS: "2"}});
        assert_eq!(progress_line(&progress, Some(4)), format!("{bare}{}", more.replace("malformed 3", "malformed 3  bad records 2")));
    }
}
