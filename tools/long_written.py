"""Written for the long suite: instructions around the texts, and ten questions on pages of SQLite's manual."""

# Each task has wrappers in turn: {text} is the document, {title} its name, {aspect} and {names} what is compared.
AUSTEN = {
    "summarise": (
        "Summarise the following passage from Jane Austen's {title} in five sentences.\n\n{text}\n\n"
        "Now give the summary in exactly five sentences.",
        "{text}\n\nThe text above is taken from {title}, a novel by Jane Austen. In five sentences of your own, tell "
        "what happens in it and who takes part.",
        "Here is a part of {title} by Jane Austen. Read it to the end; afterwards you will be asked for a summary.\n\n"
        "---\n{text}\n---\n\nWrite a summary of five sentences for a reader who has not read the novel.",
    ),
    "continue": (
        "Continue this passage from Jane Austen's {title} with the paragraph that comes next.\n\n{text}",
        "Below is a passage from {title} by Jane Austen. It breaks off at the end of a paragraph.\n\n{text}\n\n"
        "Write the next paragraph, in the same voice. Give nothing but that paragraph.",
        "You are given a piece of an old novel, {title}.\n\n---\n{text}\n---\n\nHow does it go on? Reply with one "
        "paragraph that follows directly on the last one.",
    ),
}
SQLITE = {
    "summarise": (
        "Summarise this part of the SQLite documentation in five sentences.\n\n{text}\n\n"
        "Give the five most important points, one sentence each.",
        "{text}\n\n---\nThe document above belongs to the manual of the SQLite database engine. Condense it into a "
        "summary of about 100 words.",
        "A colleague has no time to read the document below and asks you what it says.\n\n{text}\n\n"
        "Write the summary for the colleague: one paragraph of five or six sentences.",
    ),
    "introduce": (
        "Read the following document about SQLite.\n\n{text}\n\nExplain its subject to somebody who has only just "
        "begun to work with databases. Use about 120 words and no jargon that you do not explain.",
        "Explain to a newcomer what the document below is about, and why it matters in practice. Keep to about "
        "120 words.\n\n{text}\n\nYour explanation for the newcomer:",
        "{text}\n\nA beginner has read this page and understood very little. In plain words and with one everyday "
        "comparison, explain its main idea in a short paragraph.",
    ),
    "question": (
        "Answer a question about this page of the SQLite documentation.\n\n{text}\n\nQuestion: {question}\n\n"
        "Answer in one short sentence, then end with a line of the form Answer: VALUE.",
        "Question: {question}\n\nThe answer stands in the following document.\n\n{text}\n\nOnce more, the question: "
        "{question} Reply with one short sentence and a last line that starts with Answer: and gives the answer alone.",
    ),
}
FACTBOOK = {
    "briefing": (
        "Write a one-page briefing on {names} for a visitor who has never been there. Rely only on what stands in the "
        "profile below, which describes the situation of 2015.\n\n{text}\n\nThe briefing, according to the profile:",
        "{text}\n\nAccording to the profile above, written in 2015, what should a new member of staff know about "
        "{names}? Write a briefing of one page with short headings.",
        "Below is a country profile of 2015.\n\n---\n{text}\n---\n\nTurn it into a briefing of one page on {names}. "
        "Keep to facts and figures that are given according to the profile, and leave out what matters least.",
    ),
    "compare": (
        "Compare {names} with regard to {aspect}, according to the profiles below.\n\n{text}\n\n"
        "State the two most important similarities and the two most important differences in {aspect}.",
        "Two country profiles of 2015 follow.\n\n{text}\n\nAccording to the profiles, how do {names} differ in "
        "{aspect}, and what do they have in common? Answer in one or two paragraphs.",
        "{text}\n\n---\nUsing the two profiles above and nothing else, write a comparison of {names}. The subject is "
        "{aspect}. Where you give figures, quote them according to the profile.",
    ),
}
# Page: question, accepted answers. The first stands in the text that is shown.
QUESTIONS = {
    "csv": (
        "When columns=N is given and the input data has fewer columns than that, with what are the extra columns "
        "filled?",
        ("NULL",),
    ),
    "expridx": (
        "Which version of SQLite brought the ability to index expressions?",
        ("3.9.0", "3.9"),
    ),
    "invalidutf": (
        "By which four-letter abbreviation does the page call SQLite's policy on invalid UTF?",
        ("GIGO", "Garbage-In, Garbage-Out", "garbage in garbage out"),
    ),
    "psow": (
        "What expression has the SQLite team often used for the value returned by xSectorSize?",
        ("blast radius",),
    ),
    "errlog": (
        "As what kind of function should the error logger callback be treated, so that it returns as soon as possible?",
        ("signal handler",),
    ),
    "quirks": (
        "Since which version of SQLite has the use of a double-quoted string literal caused a warning message in the "
        "error log?",
        ("3.27.0", "3.27"),
    ),
    "limits": (
        "What is the hard upper bound on SQLITE_MAX_FUNCTION_ARG?",
        ("127",),
    ),
    "bindptr": (
        "Which pointer type does the pointer generated by the MATCH operator have?",
        ("fts3cursor",),
    ),
    "walformat": (
        "By which number does the hash function multiply a database page number?",
        ("383",),
    ),
    "howtocorrupt": (
        "Since which version does SQLite refuse to use low-numbered file descriptors for database files?",
        ("3.8.1",),
    ),
}
