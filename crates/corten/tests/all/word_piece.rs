//! The tokenizer of the example with BERT, beside the words that the package `tokenizers` finds.
#![allow(dead_code, clippy::unwrap_used)]

#[path = "../../examples/common/word_piece.rs"]
mod tokenizer;

/// Texts and their words, of `BertNormalizer` and `BertPreTokenizer`.
const WORDS: &[(&str, &[&str])] = &[
    ("Héllo, Wörld! ÇA va\u{a0}bien?", &["hello", ",", "world", "!", "ca", "va", "bien", "?"]),
    (
        "Ünïcödé naïve façade — \u{201c}quoted\u{201d} \u{2026}",
        &["unicode", "naive", "facade", "—", "\u{201c}", "quoted", "\u{201d}", "\u{2026}"],
    ),
    (
        "\u{5317}\u{4eac}\u{5927}\u{5b66} is in \u{5317}\u{4eac}, \u{4e2d}\u{6587}mixed\u{82f1}\u{6587}",
        &[
            "\u{5317}", "\u{4eac}", "\u{5927}", "\u{5b66}", "is", "in", "\u{5317}", "\u{4eac}",
            ",", "\u{4e2d}", "\u{6587}", "mixed", "\u{82f1}", "\u{6587}",
        ],
    ),
    (
        "\u{6771}\u{4eac}\u{30bf}\u{30ef}\u{30fc} \u{3072}\u{3089}\u{304c}\u{306a} \u{30ab}\u{30bf}\u{30ab}\u{30ca}\u{d55c}\u{ad6d}\u{c5b4}",
        &[
            "\u{6771}",
            "\u{4eac}",
            "\u{30bf}\u{30ef}\u{30fc}",
            "\u{3072}\u{3089}\u{304b}\u{306a}",
            "\u{30ab}\u{30bf}\u{30ab}\u{30ca}한국어",
        ],
    ),
    (
        "price \u{20ac}5+£3=¥8 <a@b.c> x_y",
        &[
            "price",
            "\u{20ac}5",
            "+",
            "£3",
            "=",
            "¥8",
            "<",
            "a",
            "@",
            "b",
            ".",
            "c",
            ">",
            "x",
            "_",
            "y",
        ],
    ),
    (
        "tab\u{9}new\u{a}line\u{d}zero\u{200b}width soft\u{ad}hyphen \u{feff}bom\u{0}nul\u{fffd}bad",
        &["tab", "new", "line", "zerowidth", "softhyphen", "bomnulbad"],
    ),
    ("İstanbul ISTANBUL ǅungla \u{fb01}n ß", &["istanbul", "istanbul", "ǆungla", "\u{fb01}n", "ß"]),
    ("e\u{301} combining a\u{30a}\u{323} ñ", &["e", "combining", "a", "n"]),
    (
        "\u{20000}\u{2a700}\u{3402}\u{8c48} \u{4e3d}",
        &["\u{20000}", "\u{2a700}", "\u{3402}", "\u{8c48}", "\u{4e3d}"],
    ),
    ("Ελληνικά ΆΈΉ Привет Ёлка", &["ελληνικα", "αεη", "привет", "елка"]),
    ("ไทย हिन्दी العَرَبِيَّة", &["ไทย", "हिनदी", "العربية"]),
    ("١٢٣ ½ ²x \u{2116}5 \u{2122} ©", &["١٢٣", "½", "²x", "\u{2116}5", "\u{2122}", "©"]),
    (
        "emoji \u{1f600}\u{1f44d}\u{1f3fd} flags \u{1f1e9}\u{1f1ea}",
        &["emoji", "\u{1f600}\u{1f44d}\u{1f3fd}", "flags", "\u{1f1e9}\u{1f1ea}"],
    ),
    (
        "don't can\u{2019}t it's re-use U.S.A.",
        &[
            "don", "'", "t", "can", "\u{2019}", "t", "it", "'", "s", "re", "-", "use", "u", ".",
            "s", ".", "a", ".",
        ],
    ),
    ("", &[]),
    ("   ", &[]),
    (
        "\u{ff01}\u{ff1f}\u{3002}\u{3001}\u{300c}\u{300d}",
        &["\u{ff01}", "\u{ff1f}", "\u{3002}", "\u{3001}", "\u{300c}", "\u{300d}"],
    ),
];

#[test]
fn words_are_those_of_bert() {
    for (text, expected) in WORDS {
        let found: Vec<String> =
            tokenizer::words(text).iter().map(|word| word.iter().collect()).collect();
        assert_eq!(found, *expected, "{text:?}");
    }
}

#[test]
fn pieces_are_the_longest_known_ones() {
    let file = std::env::temp_dir().join(format!("word_piece_{}.txt", std::process::id()));
    std::fs::write(&file, "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##aff\n##able\n##a\ncafe\n\u{5317}\n")
        .unwrap();
    let words = tokenizer::WordPiece::new(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(words.encode("Unaffable CAF\u{c9}\u{5317}\u{4eac}"), [2, 4, 5, 6, 8, 9, 1, 3]);
    assert_eq!(words.encode(&"una".repeat(40)), [2, 1, 3], "too long a word");
    let batch = words.batch(&["un".to_owned(), String::new()]).unwrap();
    assert_eq!(batch.to_vec::<i64>().unwrap(), [2, 4, 3, 2, 3, 0]);
}
