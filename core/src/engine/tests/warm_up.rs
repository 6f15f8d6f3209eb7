//! Starts of which the warm-up's answers are not finite.

use super::*;
use crate::error::causes_of_not_finite;
use crate::execute::output_checks::is_zero_vector;
use crate::execute::warm_up::WarmUpAnswers;
use crate::outputs::{Output, OutputKind};
use crate::testing::support::Fate;

/// Starts an engine with a warm-up of this many tokens, whose passes end so; further ones are answered.
fn start(warmup_tokens: usize, fates: &[(usize, f32)]) -> Result<Engine, StartError> {
    let (backend, control) = FakeBackend::controlled(info(embedder(), 500));
    fates.iter().for_each(|&(sequence, value)| control.release(Fate::Poison(sequence, value)));
    drop(control);
    Engine::new(model(backend, tokenizer(MODEL)), EngineConfig { warmup_tokens, ..config() }, quotas())
}

#[test]
fn answers_that_are_not_finite_are_warned_of() {
    let engine = start(64, &[(0, f32::NAN), (3, f32::NEG_INFINITY)]).unwrap();
    let warnings = &engine.info().capabilities.warnings;
    assert!(matches!(&warnings[..], [warning] if warning.starts_with("2 of 8 texts of the warm-up")), "{warnings:?}");
    assert!(start(64, &[]).unwrap().info().capabilities.warnings.is_empty());
    assert!(start(0, &[(0, f32::NAN)]).unwrap().info().capabilities.warnings.is_empty(), "nothing has run");
}

#[test]
fn answers_of_zeros_alone_are_warned_of() {
    let warning = |zero| WarmUpAnswers { texts: 8, not_finite: 0, zero }.warning("float32");
    assert!(warning(8).unwrap().contains("are the files complete?"));
    assert_eq!((warning(7), WarmUpAnswers::default().warning("float32")), (None, None));
    let output = |data: &[f32]| Output::of(OutputKind::Embedding, data.to_vec(), 2);
    assert_eq!([&[0.0, -0.0][..], &[0.0, 1e-30], &[]].map(|data| is_zero_vector(&output(data))), [true, false, false]);
}

#[test]
fn a_start_without_a_finite_answer_is_refused() {
    let refused = start(1, &[(0, f32::NAN), (0, f32::INFINITY)]).err().unwrap();
    let StartError::Other(Error::Backend(BackendError::NotFinite { problem, dtype: "float32" })) = refused else {
        panic!("{refused:?}");
    };
    assert!(problem.starts_with("all 2 texts of the warm-up") && problem.contains("a weight"), "{problem}");
    assert!(start(1, &[(0, f32::NAN)]).is_ok(), "one of two");
}

#[test]
fn float32_is_advised_where_the_model_has_another_type() {
    assert!(!causes_of_not_finite("float32").contains("float32"));
    let causes = causes_of_not_finite("bfloat16");
    assert!(causes.contains("in bfloat16 an overflow, which float32 avoids"), "{causes}");
}
