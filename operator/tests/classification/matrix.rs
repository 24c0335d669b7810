//! The matrix, row by row, against an oracle that knows pods only by the facts
//! that they were made of.

use serde_json::{Value, json};
use weir_operator::observe::{NodeState, phase};
use weir_supervisor::observed::{ExitCause, Phase};

use crate::pods::{condition, container, delete, edited, now, running, terminated};
use crate::stage::{Outcome, outcome, show, streaming};

const PHASES: [&str; 5] = ["Pending", "Running", "Succeeded", "Failed", "Unknown"];
const REASONS: [&str; 11] = [
    "",
    "Evicted",
    "NodeShutdown",
    "Terminated",
    "Preempting",
    "UnexpectedAdmissionError",
    "NodeAffinity",
    "OutOfcpu",
    "OutOfmemory",
    "DeadlineExceeded",
    "NodeLost",
];
const FLAGS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];
const CODES: [i32; 8] = [0, 1, 10, 20, 21, 22, 137, 143];

/// What the container list says of the engine.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Engine {
    /// The list is empty.
    Unlisted,
    /// It runs.
    Runs,
    /// It ended with this code.
    Ended(i32),
}

/// What the sidecar does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sidecar {
    Running,
    Failed,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    phase: &'static str,
    reason: &'static str,
    target: bool,
    engine: Engine,
    deleted: bool,
    sidecar: Sidecar,
}

impl Row {
    fn document(&self, document: &mut Value) {
        let sidecar = match self.sidecar {
            Sidecar::Running => running(),
            Sidecar::Failed => terminated(3),
        };
        let engine = match self.engine {
            Engine::Unlisted => None,
            Engine::Runs => Some(running()),
            Engine::Ended(code) => Some(terminated(code)),
        };
        let containers: Vec<Value> =
            engine.map_or_else(Vec::new, |engine| vec![container("sidecar", sidecar), container("engine", engine)]);
        let target = if self.target { "True" } else { "False" };
        document["status"] = json!({
            "phase": self.phase,
            "conditions": [condition("DisruptionTarget", target, "PreemptionByScheduler")],
            "containerStatuses": containers,
        });
        if !self.reason.is_empty() {
            document["status"]["reason"] = json!(self.reason);
        }
        if self.deleted {
            delete(document);
        }
    }

    /// The oracle: is it over, is it alive, does nobody know?
    fn expected(&self) -> (&'static str, Outcome) {
        let terminal = matches!(self.phase, "Succeeded" | "Failed");
        let over = terminal || matches!(self.engine, Engine::Ended(_));
        if !over {
            let lost = self.phase == "Unknown" || self.reason == "NodeLost";
            let word = match self.engine {
                _ if lost => "unreachable",
                _ if self.deleted => "terminating",
                Engine::Runs if self.phase == "Running" => "ready",
                _ => "starting",
            };
            return (word, Outcome::Waits);
        }
        let by_surroundings = self.target || !self.reason.is_empty();
        let outcome = match self.engine {
            // The engine's own words for what no retry heals go before what was done to it.
            Engine::Ended(20 | 21) => Outcome::Hopeless,
            Engine::Ended(22) => Outcome::Uncounted,
            // Nobody knows how it ended; or it ended well without saying so.
            Engine::Unlisted | Engine::Runs | Engine::Ended(0) => Outcome::Uncounted,
            Engine::Ended(_) if by_surroundings => Outcome::Uncounted,
            // Somebody deleted the pod and a signal ended it afterwards.
            Engine::Ended(137 | 143) if self.deleted => Outcome::Uncounted,
            Engine::Ended(_) => Outcome::Counted,
        };
        ("exited", outcome)
    }
}

fn word(phase: &Phase) -> &'static str {
    match phase {
        Phase::Starting(_) => "starting",
        Phase::Ready => "ready",
        Phase::Terminating => "terminating",
        Phase::Exited(_) => "exited",
        Phase::Unreachable { .. } => "unreachable",
        Phase::Vanished => "vanished",
    }
}

fn rows() -> Vec<Row> {
    let engines: Vec<Engine> = [Engine::Unlisted, Engine::Runs].into_iter().chain(CODES.map(Engine::Ended)).collect();
    let mut rows = Vec::new();
    for phase in PHASES {
        for reason in REASONS {
            for engine in &engines {
                for (target, deleted) in FLAGS {
                    for sidecar in [Sidecar::Running, Sidecar::Failed] {
                        rows.push(Row { phase, reason, target, engine: *engine, deleted, sidecar });
                    }
                }
            }
        }
    }
    rows
}

#[test]
fn every_row_of_the_matrix_is_classified_counted_and_restarted_as_it_should() {
    let memory = streaming();
    let mut seen = 0;
    for row in rows() {
        let pod = edited(|document| row.document(document));
        let (expected_word, expected) = row.expected();
        let phase = phase(&pod, &NodeState::Ready, now());
        assert_eq!(word(&phase), expected_word, "{row:?}: {phase:?}");
        if let Phase::Exited(exit) = &phase {
            let code = if let Engine::Ended(code) = row.engine { Some(code) } else { None };
            assert_eq!(exit.code, code, "{row:?}");
            if row.target {
                assert_eq!(exit.cause, ExitCause::Disruption { reason: "PreemptionByScheduler".to_owned() }, "{row:?}");
            } else if !row.reason.is_empty() {
                assert_eq!(exit.cause, ExitCause::Disruption { reason: row.reason.to_owned() }, "{row:?}");
            }
        }
        assert_eq!(outcome(&show(&pod, &NodeState::Ready, &memory)), expected, "{row:?}");
        seen += 1;
    }
    assert_eq!(seen, 5 * 11 * 2 * 10 * 2 * 2);
}

/// A result that was accounted once never changes, whatever becomes of the pod.
#[test]
fn a_finished_attempt_keeps_its_result() {
    for first in rows().into_iter().filter(|row| row.expected().0 == "exited" && row.reason.is_empty() && !row.target) {
        let pod = edited(|document| first.document(document));
        let plan = show(&pod, &NodeState::Ready, &streaming());
        let result = |memory: &weir_supervisor::Memory| {
            let exit = memory.run.as_ref().and_then(|run| run.tasks["a"].last_exit.clone());
            (exit, memory.last_run.clone(), memory.restarts, memory.consecutive_failures)
        };
        for (target, deleted) in FLAGS {
            for (reason, node) in [("Evicted", NodeState::Ready), ("NodeLost", NodeState::Gone), ("", NodeState::Gone)] {
                let later = Row { reason, target, deleted: first.deleted || deleted, ..first };
                let pod = edited(|document| later.document(document));
                let again = show(&pod, &node, &plan.memory);
                assert_eq!(result(&again.memory), result(&plan.memory), "{first:?} then {later:?}");
            }
        }
    }
}
