//! The system as stateright sees it: which rules hold, how much trouble there
//! is, and which steps are possible in a state.
//!
//! A `Mutant` is the protocol with one rule left out or changed. The checker
//! has to find what each of them breaks; otherwise the rule protects nothing,
//! or the model does not see it.

use stateright::{Model, Property};

use crate::actions::Action;
use crate::state::{ROOM, State, Troubles};
use crate::{actions, properties};

/// One choice of rules and bounds.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    pub policy: NodeLostPolicy,
    pub sink: SinkKind,
    pub mutant: Option<Mutant>,
    pub bounds: Bounds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeLostPolicy {
    ReplaceWhenFenced,
    Wait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkKind {
    /// Skips everything at or below its recorded batch, in the same atomic step as its commit.
    Fenced,
    /// Takes what comes.
    Unfenced,
}

/// The rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// `.status` is written without the `resourceVersion` that was read.
    NoPrecondition,
    /// An order that was never seen carried out is given again under its epoch.
    OrderGivenAgain,
    /// A silent node counts as proof that the pod is over, whatever the policy.
    ReplaceUnproven,
    /// A pod that was seen and is gone counts as over, whoever removed it.
    GoneIsProof,
    /// No broken rule: a human removes a pod by force before any pass has seen it.
    ForceDeleteUnseen,
    /// The next epoch is above the status alone, not above pod labels and reports.
    LabelsIgnored,
    /// Deletes name the pod and not its UID.
    DeleteByName,
    /// The sink commits without a look at its recorded batch.
    SinkWithoutRecord,
    /// No look at the fence before planning and before executing.
    WithoutLooks,
    /// The same, and recovery lists the logs first and reads the sink's recorded batch then.
    ListBeforeSink,
    /// A commit above the sink's recorded batch, read once, is taken for a replaced sink.
    BehindReadOnce,
}

/// How far the model goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub operators: usize,
    /// Pods that are ever created.
    pub pods: usize,
    /// The highest epoch that is reserved.
    pub epochs: u8,
    /// Batches that there is input for.
    pub batches: u8,
    pub troubles: Troubles,
}

impl Protocol {
    pub fn new(bounds: Bounds) -> Protocol {
        assert!(usize::from(bounds.epochs) < ROOM && usize::from(bounds.batches) < ROOM, "the state has no room for {bounds:?}");
        Protocol { policy: NodeLostPolicy::ReplaceWhenFenced, sink: SinkKind::Fenced, mutant: None, bounds }
    }

    pub fn with(self, mutant: Mutant) -> Protocol {
        Protocol { mutant: Some(mutant), ..self }
    }

    /// `Wait` is what an unfenced sink needs.
    pub fn waiting(self, sink: SinkKind) -> Protocol {
        Protocol { policy: NodeLostPolicy::Wait, sink, ..self }
    }

    pub fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.bounds.operators, self.bounds.troubles)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions::possible(self, state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        actions::take(self, &mut next, action).then(|| next.normal(self))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}
