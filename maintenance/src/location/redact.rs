//! Takes the secrets out of text that will be printed: what URLs carry before an `@` and after a `?`.

/// What stands where something was taken out.
const MARK: &str = "***";

/// `text` without the user info, query and fragment of any URL in it.
///
/// Text is what people and servers wrote, so it errs on the side of taking out too much: everything from `://` to the last
/// `@` before the next space, and everything from a `?` to the next space, of each word that holds a `://` or `:`…`@`.
pub fn redacted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_inclusive(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`' | '<' | '>')) {
        redact_word(word, &mut out);
    }
    out
}

fn redact_word(word: &str, out: &mut String) {
    let Some((scheme, rest)) = word.split_once(':') else {
        out.push_str(word);
        return;
    };
    let body = rest.trim_start_matches('/');
    let slashes = &rest[..rest.len() - body.len()];
    let end = body.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`' | '<' | '>' | ',' | ')'));
    let after = &body[end.len()..];
    out.push_str(scheme);
    out.push(':');
    out.push_str(slashes);
    let kept = match end.rfind('@') {
        Some(at) => {
            out.push_str(MARK);
            &end[at..]
        }
        None => end,
    };
    match kept.find(['?', '#']) {
        Some(query) => {
            out.push_str(&kept[..=query]);
            out.push_str(MARK);
        }
        None => out.push_str(kept),
    }
    out.push_str(after);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_loses_its_user_info_and_its_query() {
        assert_eq!(redacted("s3://key:secret@bucket/path"), "s3://***@bucket/path");
        assert_eq!(redacted("az://container/path?sv=1&sig=secret"), "az://container/path?***");
        assert_eq!(redacted("https://a:b@host/x?y=z#w"), "https://***@host/x?***");
        assert_eq!(redacted("s3:key:secret@bucket"), "s3:***@bucket");
    }

    #[test]
    fn a_url_in_a_sentence_is_found() {
        assert_eq!(
            redacted("invalid value 's3://k:s@b/p?q=1' for '<STORE>'\nsecond (https://h/?sig=x)"),
            "invalid value 's3://***@b/p?***' for '<STORE>'\nsecond (https://h/?***)"
        );
    }

    #[test]
    fn a_password_with_slashes_and_at_signs_goes_as_a_whole() {
        assert_eq!(redacted("s3://key:se/cr@et@bucket/p"), "s3://***@bucket/p");
    }

    #[test]
    fn other_text_stays_as_it_is() {
        for text in ["", "no url here", "line 3: no tab", "/tmp/a b/c", "s3://bucket/path", "what? (yes)"] {
            assert_eq!(redacted(text), text);
        }
    }
}
