//! Prompts that a request may ask for.

use super::*;
use crate::testing::support::limits;

#[test]
fn prompts_that_pooling_leaves_out_are_refused() {
    let resolve = |prompt: Option<Prompt>, excluded: bool| {
        let prompts = Prompts { by_name: [("plain".to_owned(), String::new())].into(), default: None, excluded };
        let options = EncodeOptions { prompt, ..EncodeOptions::new("inputs") };
        ResolvedOptions::new(&options, Choices::from(Some(&prompts)), &limits(100, false))
            .map(drop)
            .map_err(|error| error.to_string())
    };
    let text = || Some(Prompt::Text("Find: ".to_owned()));
    resolve(None, true).unwrap();
    resolve(Some(Prompt::Named("plain".to_owned())), true).unwrap();
    resolve(text(), false).unwrap();
    let refused = resolve(text(), true).unwrap_err();
    assert!(refused.contains("`prompt`") && refused.contains("include_prompt"), "{refused}");
}

#[test]
fn a_task_has_its_own_say_about_prompts_that_pooling_leaves_out() {
    let resolve = |excluded: bool, excludes_prompts: bool| {
        let tasks = [TaskProfile { task: "query".to_owned(), excludes_prompts, ..TaskProfile::default() }];
        let prompts = Prompts { excluded, ..Prompts::default() };
        let choices = Choices { prompts: Some(&prompts), tasks: &tasks };
        let prompt = Some(Prompt::Text("Find: ".to_owned()));
        let options = EncodeOptions { prompt, task: Some("query".to_owned()), ..EncodeOptions::new("inputs") };
        ResolvedOptions::new(&options, choices, &limits(100, false)).map(drop)
    };
    resolve(true, false).unwrap();
    resolve(false, true).unwrap_err();
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
