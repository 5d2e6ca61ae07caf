//! The state machine of a run, under any sequence of events.
#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use trainyard_core::run::{Effect, Ending, Event, Outcome, Policy, Reason, Run, State, decide};
use trainyard_core::spec::ResumeReason;
use trainyard_core::time::{Instant, Span};

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        (0..4).prop_map(|code| Outcome::Exited { code }),
        Just(Outcome::Killed { signal: 9 }),
        Just(Outcome::TimeLimit),
        Just(Outcome::Preempted),
        Just(Outcome::Stopped),
        Just(Outcome::Lost { why: "gone".to_owned() }),
        Just(Outcome::CannotStart { code: 127, why: "no".to_owned() }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let ending = (outcome(), 0..200_000_u64, prop::option::of(any::<bool>()))
        .prop_map(|(outcome, lasted, new_checkpoint)| Ending { outcome, lasted: Span(lasted), new_checkpoint });
    prop_oneof![
        4 => Just(Event::Placed),
        2 => (1..6_u32).prop_map(|attempt| Event::Started { attempt }),
        4 => (1..6_u32, ending).prop_map(|(attempt, ending)| Event::Ended { attempt, ending }),
        1 => (1..6_u32).prop_map(|attempt| Event::NeverStarted { attempt }),
        1 => Just(Event::Refused { why: "no".to_owned() }),
        1 => Just(Event::CancelAsked),
        1 => (1..6_u32).prop_map(|attempt| Event::Accepted { attempt }),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    let all = vec![ResumeReason::TimeLimit, ResumeReason::Preempted, ResumeReason::NodeFailure, ResumeReason::Failed];
    (1..5_u32, prop::sample::subsequence(all, 0..=4)).prop_map(|(attempts, on)| Policy { attempts, on })
}

proptest! {
    #[test]
    fn whatever_happens_the_rules_hold(policy in policy(), events in prop::collection::vec(event(), 0..40)) {
        let mut run = Run::new(policy.clone(), Instant(0));
        let mut submitted = Vec::new();
        for (index, event) in events.iter().enumerate() {
            let decision = decide(&run, event, Instant(i64::try_from(index).unwrap() * 1000));
            if run.state.has_ended() {
                prop_assert!(!decision.changed, "ended stays ended");
            }
            if !decision.changed {
                prop_assert_eq!(&decision.next, &run);
                prop_assert!(decision.effects.is_empty());
            }
            prop_assert!(decision.next.last_attempt >= run.last_attempt, "numbers only grow");
            prop_assert!(decision.next.attempts <= policy.attempts, "no attempt too many");
            for effect in &decision.effects {
                if let Effect::Submit { attempt } = effect {
                    prop_assert!(!submitted.contains(attempt), "no number is submitted twice");
                    submitted.push(*attempt);
                }
                if let Effect::Stop { attempt } = effect {
                    prop_assert_eq!(decision.next.state.attempt(), Some(*attempt));
                }
            }
            run = decision.next;
        }
    }

    #[test]
    fn only_exit_code_zero_is_success(policy in policy(), outcome in outcome()) {
        let placed = decide(&Run::new(policy, Instant(0)), &Event::Placed, Instant(1)).next;
        let ending = Ending { outcome: outcome.clone(), lasted: Span(1), new_checkpoint: None };
        let after = decide(&placed, &Event::Ended { attempt: 1, ending }, Instant(2)).next;
        let succeeded = matches!(after.state, State::Succeeded { .. });
        prop_assert_eq!(succeeded, outcome == Outcome::Exited { code: 0 });
    }
}

fn running(policy: Policy) -> Run {
    let placed = decide(&Run::new(policy, Instant(0)), &Event::Placed, Instant(1)).next;
    decide(&placed, &Event::Started { attempt: 1 }, Instant(2)).next
}

fn ended(run: &Run, outcome: Outcome, lasted: Span, new_checkpoint: Option<bool>) -> Run {
    let attempt = run.state.attempt().unwrap();
    let ending = Ending { outcome, lasted, new_checkpoint };
    decide(run, &Event::Ended { attempt, ending }, Instant(100_000)).next
}

fn on(reasons: &[ResumeReason]) -> Policy {
    Policy { attempts: 9, on: reasons.to_vec() }
}

#[test]
fn progress_resets_the_crash_loop_count() {
    let mut run = running(on(&[ResumeReason::Failed]));
    for progress in [false, true, false] {
        run = ended(&run, Outcome::Exited { code: 1 }, Span(10), Some(progress));
        assert!(matches!(run.state, State::Queued { .. }), "{:?}", run.state);
        run = decide(&run, &Event::Placed, Instant(200_000)).next;
    }
    run = ended(&run, Outcome::Exited { code: 1 }, Span(10), Some(false));
    assert!(
        matches!(run.state, State::Failed { reason: Reason::CrashLoop { attempts: 2, .. }, .. }),
        "{:?}",
        run.state
    );
}

#[test]
fn a_long_attempt_that_was_preempted_is_not_blamed() {
    let mut run = running(on(&[ResumeReason::Preempted]));
    for _ in 0..5 {
        run = ended(&run, Outcome::Preempted, Span::seconds(3600), Some(false));
        let State::Queued { not_before, .. } = run.state else { panic!("{:?}", run.state) };
        assert_eq!(not_before, None, "and does not wait");
        run = decide(&run, &Event::Placed, Instant(200_000)).next;
    }
}

#[test]
fn the_next_attempt_waits_after_a_crash() {
    let run = ended(&running(on(&[ResumeReason::Failed])), Outcome::Killed { signal: 11 }, Span(10), Some(false));
    let State::Queued { not_before, .. } = run.state else { panic!("{:?}", run.state) };
    assert_eq!(not_before, Some(Instant(101_000)));
}

#[test]
fn a_cancelled_run_is_cancelled_however_its_program_ends() {
    let asked = decide(&running(on(&[ResumeReason::Failed])), &Event::CancelAsked, Instant(3));
    assert_eq!(asked.effects, [Effect::Stop { attempt: 1 }]);
    let after = ended(&asked.next, Outcome::Killed { signal: 15 }, Span(10), None);
    assert!(matches!(after.state, State::Cancelled { .. }));
}

#[test]
fn an_attempt_that_never_started_does_not_count() {
    let placed = decide(&Run::new(Policy { attempts: 1, on: vec![] }, Instant(0)), &Event::Placed, Instant(1)).next;
    let back = decide(&placed, &Event::NeverStarted { attempt: 1 }, Instant(2)).next;
    assert!(matches!(back.state, State::Queued { .. }));
    let again = decide(&back, &Event::Placed, Instant(3));
    assert_eq!(again.effects, [Effect::Submit { attempt: 2 }], "but its number is spent");
    assert_eq!(again.next.attempts, 1);
}
