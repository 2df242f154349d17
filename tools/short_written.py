r"""Written for the short suite: ten prompts in each of eight categories, as a user might type them.

A line that starts with `> ` begins a prompt and `= ` gives its accepted answers, `answer|another`, with \n for a line
break. Only the texts that a scorer can judge without doubt have answers.
"""

import re

EXPLAIN = """
> Why does the moon look so much bigger when it is close to the horizon? I held my thumb against it twice last night, \
once at dusk and once at midnight, and it was the same size both times.
> how does yeast actually make bread rise, and what goes wrong if the water is too hot
> I keep hearing that correlation is not causation. Walk me through that with one example from gardening, then tell me \
what kind of evidence would change your mind.
> Compound interest in four sentences, please. No formulas.
> My nine-year-old wants to know why we need leap years if a year has 365 days. What do I tell her?
> Before there were sorting machines, how did a letter find its way from a village postbox to a house at the other end \
of the country? Go step by step.
> What is the difference between weathering and erosion? Give one example of each that I could see on a rocky beach.
> Use a set of nested wooden dolls to explain recursion, and say where the comparison breaks down.
> In music, what makes a minor key sound sad to so many people? Is it something in the notes, or mostly habit?
> Erik says a heavier boat always sits deeper in the water. Noor says only the shape of the hull matters. Who is \
right, and what decides how deep a boat floats?
"""

ADVISE = """
> I've been asked to give a toast at my sister's wedding in three weeks and I freeze in front of crowds. How should I \
prepare?
> Two of my flatmates never do the dishes. I don't want a fight, but I'm done washing up for three people. What would \
you say to them, and when?
> rainy saturday, two kids (5 and 8), small flat, no screens, nothing that costs money. plan the day for me
> Our balcony is narrow, faces north and gets wind all day. Which kinds of plants stand a chance there, and how should \
we arrange the pots?
> My grandfather left forty years of unsorted photographs in shoeboxes. Suggest a way of sorting them that I can keep \
up with one hour a week.
> Is it worth learning to touch-type at sixty? I write about two pages a day and get by with four fingers.
> The village library can afford one of these: a large-print collection, a reading corner for children, or longer \
opening hours. Which questions should the committee answer before it votes?
> I have a job interview at 9:30. The train takes 40 minutes, the walk from the station another 15, and trains leave \
every half hour from 7:05. Which one would you take, and why?
> A friend lent me a book full of her own notes in the margins, and I spilled tea over it. How do I own up, and what \
can I offer her?
> Four-week plan, please: from not running at all to twenty minutes without a break. I have three free evenings a week \
and my knees complain on hills.
"""

CREATIVE = """
> Write a story of about 120 words in which a lighthouse keeper receives a postcard addressed to the lighthouse itself.
> A limerick about a baker who is allergic to flour, please.
> Finish this opening in five or six sentences and keep the mood: The last tram of the night had no driver, and nobody \
on board seemed to mind.
> My daughter wants a lullaby for her toy robot. Two verses, a gentle rhythm, and it has to mention rust.
> Invent a myth that explains why cats ignore people who call them. Tell it the way an old storyteller would by the \
fire.
> Three haiku: first snow, a broken umbrella, the smell of a bookshop
> Describe a thunderstorm from the point of view of a kite that is stuck in a tree.
> I need the text for the back cover of a mystery novel. It is set in a clock repair shop in a fishing town, and the \
victim wound every clock before dying. Don't give away the ending.
> It is the day the crew first sights land after five months at sea. What does the ship's cook write in his diary?
> Compose a mock-heroic ode of eight lines to a sock that was lost in the laundry.
"""

REWRITE = """
> Make this polite without losing the point:

You sent the wrong parts again. This is the third time. I want the right ones by Friday or I am cancelling everything.
> Please correct the spelling and grammar and leave the rest alone.

Yesterday me and my brother has went to the lake, but the boats was all took, so we sitted on the peer and eated our \
sandwichs. Its a shame becaus the whether was perfect.
> Cut this down to one sentence of at most twenty words.

Due to the fact that the heating system in the main hall is currently in the process of being repaired, it has been \
decided that the meeting which was originally planned to take place there will instead be held in the smaller room on \
the first floor.
> Everything in this paragraph is passive. Turn it into the active voice:

The window was broken by a branch. The glass was swept up by our neighbour, and the hole was covered with cardboard by \
her son. By noon a new pane had been fitted by the glazier.
> Put this into the past tense and let Marta tell it herself.

Marta hears a noise in the attic. She takes the torch, climbs the ladder and finds an owl sitting on her old doll's \
house. She goes back down on tiptoe and says nothing to anyone.
> The notice below is for residents who are still learning the language. Can you say it in plain words?

Occupants are hereby advised that refuse receptacles must not be deposited on the public footway prior to 18:00 on the \
day preceding collection. Non-compliance may result in the imposition of a penalty.
> turn my rambling into a packing list with headings

so boots obviously, two pairs of wool socks, something waterproof, oh and the stove plus gas, matches in a dry bag, a \
pan, then for the nights tent, sleeping bag, mat, a head lamp. map and compass go in the top pocket
> I wrote this to my oldest friend and it reads like a letter from a bank. Loosen it up.

Dear Tom, I write to express my gratitude for your hospitality during my recent visit. The accommodation was most \
satisfactory and the meals were of excellent quality. I look forward to reciprocating at your earliest convenience.
> Rewrite the paragraph so that no sentence begins with "The" and nothing is called nice.

The garden was nice. The roses were red and the path was nice too. The old man who lived there was nice to us. The \
afternoon went by quickly.
> Here is the first verse of a song I am working on. Keep the rhyme scheme, but swap the winter pictures for summer \
ones.

The snow lay quiet on the hill,
The frozen wheel stood by the mill,
A robin called, the air was thin,
And someone lit a lamp within.
"""

LISTS = """
> What can I make or do with a single sheet of paper and no tools? Ten ideas.
> Which of these words are palindromes: level, garden, rotor, window, civic, banana, noon? Give only those, in the \
same order, separated by commas.
= level, rotor, civic, noon|level,rotor,civic,noon|level, rotor, civic, and noon
> five reasons a bike chain keeps falling off, most likely one first
> List the eight planets of the solar system from the largest diameter to the smallest, separated by commas, and \
nothing else.
= Jupiter, Saturn, Uranus, Neptune, Earth, Venus, Mars, Mercury|Jupiter,Saturn,Uranus,Neptune,Earth,Venus,Mars,Mercury
> Our community choir is giving a spring concert and every song is about water. Brainstorm a dozen titles for the \
evening, at least two of them funny.
> What might a retired magician still carry in his pockets? Twelve objects, each with a few words on why he keeps it.
> Before I adopt an elderly dog from a shelter, what should I ask? Group the questions under health, habits and home.
> I'm stuck on a poem about the sea. Find me rhymes for "stone" that would not look out of place in it.
> Half of our book club never finishes the book. Suggest eight discussion questions that work for any novel, even one \
that was only half read.
> Pros and cons of living above a bakery. Four each, one line per point.
"""

CODE = """
> Write a Python function that takes a list of (start, end) pairs and merges those that overlap. Type hints and a \
short docstring, please.
> What does this print? Give the output first, then explain it.

```python
words = ["tea", "milk", "honey"]
print("-".join(word[::-1] for word in words))
```
= aet-klim-yenoh
> JavaScript: I want a debounce function that calls its callback only after `wait` milliseconds of silence. No \
libraries, and show how it is used.
> The table loans(member_id, book_id, taken_on, returned_on) has returned_on null while a book is out. I need an SQL \
query for the five members with the most books out right now.
> bash one-liner to rename every .jpeg in the current folder to .jpg without overwriting anything
> This C function should reverse a string in place, but the string comes out unchanged. Where is the mistake?

```c
void reverse(char *s) {
    size_t n = strlen(s);
    for (size_t i = 0; i < n; i++) {
        char t = s[i];
        s[i] = s[n - 1 - i];
        s[n - 1 - i] = t;
    }
}
```
> I'm looking for a regular expression that accepts 24-hour times such as 07:45 and 23:59 and rejects 24:00 and 7:5. \
Explain each part of it on a line of its own.
> Model the states of a washing machine as a Rust enum, with a method that moves to the next state. Refuse to start \
while the door is open.
> Tidy this up without changing what it does:

```python
def f(a):
    r = []
    for i in range(len(a)):
        if a[i] % 2 == 0:
            r.append(a[i] * a[i])
        else:
            pass
    return r
```
> Could you draft unit tests for a function is_leap(year) that follows the Gregorian calendar? Cover both kinds of \
century year and two ordinary years.
"""

STRUCTURED = """
> Turn this into JSON with the keys name, age and pets, where pets is a list of objects: Ines is 34 and lives with a \
parrot called Biscuit and two goldfish that nobody has named.
> Make a Markdown table that compares walking, cycling and taking the bus for a trip of five kilometres. Columns: \
time, effort, cost, bad weather.
> We planted the lime in 1962, the walnut in 1899, the plum in 1987 and the ash in 1934. Reply with a JSON array of \
the four names, earliest planting first.
= ["walnut", "ash", "lime", "plum"]|["walnut","ash","lime","plum"]
> csv with header please, columns date, what, amount, and the dates as YYYY-MM-DD: rent 3 march 2021 640, bread 5 \
march 2021 4.20, shoes 17 april 2021 79
> Three people share a flat: Ada, Bo and Cem. Write a YAML file that gives each of them one chore a day from Monday to \
Friday, so that nobody cooks two days running.
> Outline Romeo and Juliet as a numbered list of the five acts with two bullet points under each.
> Pull every quantity out of this sentence and show ingredient, amount and unit as a table: Whisk 3 eggs with 120 g of \
sugar, then stir in 250 ml of warm milk and 2 tablespoons of rum.
> I'd like a glossary of six sailing terms in exactly this shape, one per line, no meaning longer than eight words:

TERM :: meaning
> Label each sentence as question, order or statement. Reply with three lines of the form number: label.

1. Close the gate behind you.
2. The gate was open all night.
3. Who left the gate open?
= 1: order\\n2: statement\\n3: question
> Lay out the timetable of a one-day origami workshop as an HTML table, with two sessions before lunch and two \
after it, breaks included. No styling.
"""

DIALOGUE = """
> Write a conversation between a customs officer and a traveller whose suitcase holds nothing but left shoes.
> You are a patient librarian and I am a teenager who claims to hate reading. Open the conversation. One short message \
at a time.
> hey, rough day. my boss moved the deadline up and then went home early. don't try to fix it, just talk to me for a bit
> lets play twenty questions. im thinking of something in my kitchen, you ask first
> Two old neighbours, one of them deaf in the left ear, argue across a hedge about whose apple tree it is. Ten lines, \
no narration.
> Pretend to be the computer of a ship that has drifted alone for a century. I have just come on board. Greet me, and \
try not to sound desperate.
> I want to practise ordering in a restaurant. You are the waiter; correct my English when I slip. "Good evening, I \
would like to sitting near of the window."
> Continue this scene with six more lines.

ANNA: You said the bridge would hold.
BORIS: I said it held yesterday.
> A reporter from the school newspaper meets a retired clown. Three questions, three answers, and one of the answers \
should surprise her.
> For the debate club: I say children should still learn handwriting, you say it is a waste of time. Make your opening \
argument, then stop and let me reply.
"""

CATEGORIES = {
    "explain": EXPLAIN,
    "advise": ADVISE,
    "creative": CREATIVE,
    "rewrite": REWRITE,
    "list": LISTS,
    "code": CODE,
    "structured": STRUCTURED,
    "dialogue": DIALOGUE,
}


def prompts() -> list[tuple[str, str, list[str]]]:
    """(category, prompt, accepted answers) in the order above; no answers where nothing is checkable."""
    found = []
    for category, block in CATEGORIES.items():
        for text in re.split(r"^> ", block, flags=re.MULTILINE)[1:]:
            prompt, _, answers = text.partition("\n= ")
            accepted = answers.strip().replace("\\n", "\n").split("|") if answers else []
            found.append((category, prompt.strip(), accepted))
    return found
