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

/// What a site says, after an attempt of a run it was sent.
fn reported(run: &Run, site: &Run) -> Run {
    decide(run, &Event::Reported { site: Box::new(site.clone()) }, Instant(500_000)).next
}

#[test]
fn a_site_is_mirrored() {
    let policy = on(&[ResumeReason::TimeLimit]);
    let there = running(policy.clone());
    let sent = decide(&Run::new(policy, Instant(0)), &Event::Placed, Instant(1)).next;
    let waiting = decide(&sent, &Event::Accepted { attempt: 1 }, Instant(2)).next;
    assert!(matches!(waiting.state, State::Waiting { attempt: 1, .. }));
    let here = reported(&waiting, &there);
    assert!(matches!(here.state, State::Running { attempt: 1, .. }));
    let there = ended(&there, Outcome::TimeLimit, Span::seconds(90), Some(true));
    let here = reported(&here, &there);
    assert!(matches!(here.state, State::Waiting { attempt: 2, .. }), "{:?}", here.state);
    assert_eq!((here.last_attempt, here.attempts), (1, 1));
    let next = decide(&there, &Event::Placed, Instant(3)).next;
    let here = reported(&here, &next);
    assert!(matches!(here.state, State::Waiting { attempt: 2, .. }));
    assert_eq!(here.attempts, 2);
    assert_eq!(reported(&here, &there), here, "a late report changes nothing");
    let done = ended(&next, Outcome::Exited { code: 0 }, Span(1), None);
    assert!(matches!(reported(&here, &done).state, State::Succeeded { .. }));
}

#[test]
fn a_run_that_a_site_lost_is_sent_again() {
    let sent = decide(&Run::new(on(&[]), Instant(0)), &Event::Placed, Instant(1)).next;
    let waiting = decide(&sent, &Event::Accepted { attempt: 1 }, Instant(2)).next;
    let back = decide(&waiting, &Event::NeverStarted { attempt: 1 }, Instant(3));
    assert_eq!(back.effects, [Effect::Queue { not_before: None }]);
    assert_eq!(back.next.attempts, 0);
    // One that waited for its second turn has had its first.
    let there = ended(&running(on(&[ResumeReason::TimeLimit])), Outcome::TimeLimit, Span::seconds(90), Some(true));
    let here = reported(&waiting, &there);
    assert_eq!(decide(&here, &Event::NeverStarted { attempt: 2 }, Instant(3)).next.attempts, 1);
}

#[test]
fn a_run_that_waits_at_a_site_is_cancelled_there() {
    let sent = decide(&Run::new(on(&[]), Instant(0)), &Event::Placed, Instant(1)).next;
    let waiting = decide(&sent, &Event::Accepted { attempt: 1 }, Instant(2)).next;
    let asked = decide(&waiting, &Event::CancelAsked, Instant(3));
    assert_eq!(asked.effects, [Effect::Stop { attempt: 1 }]);
    let here = reported(&asked.next, &running(on(&[])));
    assert_eq!(here.state, asked.next.state, "until the site says that it has ended");
}

#[test]
fn a_run_that_a_site_ended_before_its_first_attempt_has_ended() {
    let there = Run::new(on(&[]), Instant(0));
    let sent = decide(&there, &Event::Placed, Instant(1)).next;
    let asked = decide(&sent, &Event::CancelAsked, Instant(3)).next;
    let cancelled = decide(&there, &Event::CancelAsked, Instant(4)).next;
    assert!(matches!(reported(&asked, &cancelled).state, State::Cancelled { .. }));
    let refused = decide(&there, &Event::Refused { why: "too large".to_owned() }, Instant(4)).next;
    assert!(matches!(reported(&sent, &refused).state, State::Failed { .. }));
}
