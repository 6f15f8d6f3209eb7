//! Prompts that a request may ask for.

use super::*;
use crate::test_support::limits;

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
