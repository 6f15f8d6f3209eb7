//! Prompts that a request may ask for, and lengths of tasks.

use super::*;
use crate::testing::support::limits;
use std::slice::from_ref;

#[test]
fn the_tokens_of_a_prompt_that_is_not_pooled_are_counted() {
    use crate::encode::encoder::Encoder;
    let encoder = Encoder::new(crate::testing::support::tokenizer("bert-mean-tiny"), None, limits(20, false)).unwrap();
    let resolve = |prompt: Option<&str>, excluded: bool, task: Option<bool>| {
        let prompts = Prompts { excluded, ..Prompts::default() };
        let profile =
            TaskProfile { task: "query".to_owned(), excludes_prompts: task == Some(true), ..TaskProfile::default() };
        let tasks = [profile];
        let options = EncodeOptions {
            prompt: prompt.map(|text| Prompt::Text(text.to_owned())),
            task: task.map(|_| "query".to_owned()),
            ..EncodeOptions::new("inputs")
        };
        encoder.resolve(&options, Choices { prompts: Some(&prompts), tasks: &tasks }).unwrap()
    };
    let skipped = |prompt, excluded| resolve(prompt, excluded, None).skipped;
    let ids = |text: &str| encoder.tokenizer.encode(text, true).unwrap().len() as u32;
    // The first special token counts, the last one does not.
    assert_eq!(skipped(Some("the red cat "), true), ids("the red cat ") - 1);
    assert_eq!((skipped(Some("the red cat "), false), skipped(None, true), skipped(Some(""), true)), (0, 0, 0));
    assert_eq!(skipped(Some("red ".repeat(99).as_str()), true), 19, "a prompt is cut like a text");
    assert!(
        resolve(Some("red"), false, Some(true)).skipped > 0 && resolve(Some("red"), true, Some(false)).skipped == 0
    );

    let options = resolve(Some("the red cat "), true, None);
    let pooled = |inputs: &[Input], wanted| options.pooled(wanted, inputs.iter(), "inputs").map(Outputs::skipped);
    let (text, list) = (Input::Text("a".to_owned()), Input::Ids(vec![1]));
    assert_eq!(pooled(from_ref(&text), Outputs::EMBEDDING).unwrap(), options.skipped);
    assert_eq!(pooled(from_ref(&text), Outputs::TOKENS).unwrap(), 0);
    assert_eq!(pooled(from_ref(&list), Outputs::EMBEDDING).unwrap(), 0, "ids have no prompt");
    assert!(pooled(&[text, list], Outputs::EMBEDDING).is_err());
}

#[test]
fn texts_of_a_task_may_have_a_length_within_the_limit() {
    let resolve = |of_task: Option<usize>, max_tokens: Option<usize>| {
        let query = TaskProfile { task: "query".to_owned(), max_input_length: of_task, ..TaskProfile::default() };
        let choices = Choices { prompts: None, tasks: &[query] };
        let options = EncodeOptions { max_tokens, task: Some("query".to_owned()), ..EncodeOptions::new("inputs") };
        ResolvedOptions::new(&options, choices, &limits(100, false)).unwrap().max_tokens
    };
    assert_eq!(resolve(None, None), 100);
    assert_eq!(resolve(Some(7), None), 7);
    assert_eq!(resolve(Some(700), None), 100);
    assert_eq!(resolve(Some(7), Some(20)), 20, "a request may ask for more than the task has");
}

#[test]
fn a_limit_truncates_unless_the_request_refuses() {
    let truncates = |truncate, max_tokens| {
        let options = EncodeOptions { truncate, max_tokens, ..EncodeOptions::new("inputs") };
        ResolvedOptions::new(&options, Choices { prompts: None, tasks: &[] }, &limits(100, false)).unwrap().truncate
    };
    assert!(truncates(None, Some(7)) && truncates(Some(true), None));
    assert!(!truncates(Some(false), Some(7)) && !truncates(None, None));
}
