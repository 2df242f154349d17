"""Longer composed answers: small stories, day plans, directions, descriptions, comparisons."""

import random

from .core import article, cap
from .english import number
from .stories import NAMES

HOURS = range(7, 12)
LOST = "key hat map coin letter ring umbrella ticket photo notebook whistle scarf".split()
WHERE = (
    "in the park",
    "near the river",
    "at the station",
    "in the old mill",
    "on the bridge",
    "in the library",
    "behind the school",
)
FOUND = (
    "under a bench",
    "in a tree",
    "beside a stone",
    "in an empty box",
    "behind a door",
    "in the pocket of a coat",
    "on a low wall",
)
HELPERS = "neighbour baker teacher driver gardener librarian painter sailor".split()
WEATHER = (
    "It was a cold morning.",
    "It was raining that day.",
    "The sun was shining.",
    "The wind was strong.",
    "It was getting dark.",
)
ENDINGS = (
    "They laughed and went home together.", "They drank tea and told old stories.",
    "The two have been friends ever since.",
    "After that day nothing was ever lost again.", "They sat down and ate a piece of cake.",
)  # fmt: skip


def story(rng: random.Random) -> tuple[str, str]:
    """Somebody loses a thing and finds it with help."""
    name, helper, thing, place = rng.choice(NAMES), rng.choice(HELPERS), rng.choice(LOST), rng.choice(WHERE)
    prompt = rng.choice((
        f"Write a short story about {name}, who loses {article(thing)} {place} and gets help from {article(helper)}.",
        f"Tell a short story: {name} loses {article(thing)} {place}, and {article(helper)} helps to find it.",
    ))  # fmt: skip
    search = rng.choice(("looked everywhere", "searched for an hour", "walked up and down", "asked every passer-by"))
    sentences = (
        rng.choice(WEATHER),
        f"{name} was {place} and saw that the {thing} was gone.",
        f"{name} {search}, but the {thing} was not there.",
        f"Then {article(helper)} came by and offered to help.",
        f"Together they found the {thing} {rng.choice(FOUND)}.",
        rng.choice(ENDINGS),
    )
    return prompt, " ".join(sentences)


ACTS = (
    ("painting", "paint a chair"), ("shopping", "go shopping"), ("a walk", "take a walk"),
    ("a visit", "visit a friend"),
    ("reading", "read a book"), ("the garden", "work in the garden"), ("a letter", "write a letter"),
    ("the dentist", "see the dentist"),
    ("a swim", "go for a swim"), ("cooking", "cook a meal"), ("cleaning", "clean the kitchen"),
    ("music", "play some music"),
)  # fmt: skip


def day_plan(rng: random.Random) -> tuple[str, str]:
    """A plan with hours from a list of things to do."""
    name, chosen, start = rng.choice(NAMES), rng.sample(ACTS, rng.randint(3, 5)), rng.choice(HOURS)
    step = rng.choice((1, 2))
    hours = [(start + step * i - 1) % 12 + 1 for i in range(len(chosen))]
    asked = ", ".join(short for short, _ in chosen)
    gap = "one hour" if step == 1 else "two hours"
    prompt = f"Make a plan for {name}'s day, starting at {start} o'clock with {gap} for each: {asked}."
    return prompt, "\n".join(
        f"{hour} o'clock: {name} will {act}." for hour, (_, act) in zip(hours, chosen, strict=True)
    )


MARKS = (
    "the bank",
    "the church",
    "the bakery",
    "the school",
    "the fountain",
    "the post office",
    "the park",
    "the museum",
    "the bus stop",
)


def directions(rng: random.Random) -> tuple[str, str]:
    """The way from one place to another over two turns, and the way back."""
    start, first, second, goal = rng.sample(MARKS, 4)
    turns = rng.choice(("left", "right")), rng.choice(("left", "right"))
    back = ["right" if turn == "left" else "left" for turn in reversed(turns)]
    way = f"Start at {start}. Turn {turns[0]} at {first}, then turn {turns[1]} at {second}, and go on to {goal}."
    prompt = rng.choice(
        (f"Here is a way: {way} Describe the way back.", f"Turn these directions around, from {goal} to {start}: {way}")
    )
    return prompt, f"Start at {goal}. Turn {back[0]} at {second}, then turn {back[1]} at {first}, and go on to {start}."


RECIPES = {
    "a cup of tea": (
        "Boil some water.",
        "Put a tea bag into the cup.",
        "Pour the hot water over it.",
        "Wait for three minutes.",
        "Take the bag out and add sugar.",
    ),
    "a paper boat": (
        "Fold the sheet in half.",
        "Fold the two upper corners to the middle.",
        "Fold up the lower edges.",
        "Open the hat from below.",
        "Pull the tips apart.",
    ),
    "a fruit salad": (
        "Wash the fruit.",
        "Peel what has a thick skin.",
        "Cut everything into small pieces.",
        "Mix the pieces in a bowl.",
        "Add a little lemon juice.",
    ),
    "a fried egg": (
        "Heat a little oil in a pan.",
        "Break the egg into the pan.",
        "Fry it until the white is firm.",
        "Add some salt.",
        "Put it on a plate.",
    ),
    "a bird house": (
        "Cut six boards.",
        "Drill a round hole into the front.",
        "Nail the sides together.",
        "Put on the roof.",
        "Hang the house in a tree.",
    ),
    "a pot of soup": (
        "Cut the vegetables.",
        "Fry the onions in the pot.",
        "Add the vegetables and water.",
        "Cook everything for half an hour.",
        "Add salt and herbs.",
    ),
    "a kite": (
        "Tie two sticks into a cross.",
        "Run a string around the ends.",
        "Glue paper onto the frame.",
        "Tie a tail to the lower end.",
        "Fix a long line in the middle.",
    ),
    "a sandwich": (
        "Cut two slices of bread.",
        "Spread butter on both.",
        "Put cheese on one of them.",
        "Add some tomato.",
        "Close the sandwich and cut it in half.",
    ),
}
CONNECTORS = ("First", "Then", "After that", "Next", "Finally")


def recipe(rng: random.Random) -> tuple[str, str]:
    """How to make something: numbered, or told in order with connecting words."""
    goal, steps = rng.choice(list(RECIPES.items()))
    name, draw = rng.choice(NAMES), rng.random()
    numbered = "\n".join(f"{i}. {step}" for i, step in enumerate(steps, 1))
    if draw < 0.3:
        return f"Number these steps of making {goal} for {name}: {' '.join(steps)}", numbered
    if draw < 0.65:
        return f"Explain to {name} in five numbered steps how to make {goal}.", numbered
    told = " ".join(f"{link}, {step[0].lower()}{step[1:]}" for link, step in zip(CONNECTORS, steps, strict=True))
    return f"Tell {name} in five sentences how to make {goal}.", told


LOOKS = "small large old new round tall narrow quiet bright dark".split()
OBJECTS = "house room hall kitchen office shop".split()
PARTS = (
    ("walls", "white grey yellow blue red green"), ("ceiling", "white grey low high"),
    ("door", "green blue brown white"),
    ("windows", "narrow wide round clean dusty"), ("floor", "wooden stone tiled dusty"),
)  # fmt: skip


def description(rng: random.Random) -> tuple[str, str]:
    """A place from given facts, in whole sentences."""
    place, look, name = rng.choice(OBJECTS), rng.choice(LOOKS), rng.choice(NAMES)
    chosen = [(part, rng.choice(words.split())) for part, words in rng.sample(PARTS, rng.randint(2, 4))]
    facts = "; ".join(f"{part}: {word}" for part, word in chosen)
    people = rng.randint(2, 9)
    prompt = rng.choice((
        f"Describe {name}'s {place} in a few sentences. Facts: {look}; {facts}; people who use it: {people}.",
        f"Write full sentences about {name}'s {place} from these notes: {look}; {facts}; people who use it: {people}.",
    ))  # fmt: skip
    sentences = [f"{name} has {article(f'{look} {place}')}."]
    sentences += [f"The {part} {'are' if part.endswith('s') else 'is'} {word}." for part, word in chosen]
    return prompt, " ".join((*sentences, f"{cap(number(people))} people use the {place}."))


def comparison(rng: random.Random) -> tuple[str, str]:
    """Two people compared in age and height, in three sentences."""
    (a, b), ages, heights = rng.sample(NAMES, 2), rng.sample(range(18, 80), 2), rng.sample(range(150, 200), 2)
    facts = f"{a} is {ages[0]} years old and {heights[0]} cm tall. {b} is {ages[1]} years old and {heights[1]} cm tall."
    older, younger = (a, b) if ages[0] > ages[1] else (b, a)
    taller, shorter = (a, b) if heights[0] > heights[1] else (b, a)
    last = (
        f"{taller} is also the taller one of the two." if older == taller else f"But {taller} is taller than {shorter}."
    )
    prompt = rng.choice(
        (f"Compare {a} and {b} in age and height. {facts}", f"{facts} Compare the two in three sentences.")
    )
    years, height = abs(ages[0] - ages[1]), abs(heights[0] - heights[1])
    count = "one year" if years == 1 else f"{number(years)} years"
    return prompt, f"{older} is {count} older than {younger}. {last} The difference in height is {height} cm."
