"""Written for the translation suite: English paragraphs of 60 to 120 words by different voices, `kind: text`."""

_TEXTS = """
story: The lighthouse had not been lit for eleven years when Ines found the key. It hung behind the flour sacks in her
grandmother's pantry, on a nail so rusty that it crumbled when she touched it. She climbed the hundred and forty steps
with a candle in one hand and her shoes in the other. At the top there was no lamp any more, only a family of swallows
and a view of the whole bay. She sat down among the feathers and, for the first time since the funeral, she laughed.

letter: Dear Mr Hollis, I am writing about the pear tree that leans over our shared wall. Nobody in this house objects
to the fruit; my husband has made four kinds of jam and is planning a fifth. The trouble is the wasps, which have
discovered our back door and now treat the kitchen as their own. Would you mind if we picked the lower branches early
next autumn, before the pears begin to fall? You would of course be given half, or the jam, whichever you prefer. With
kind regards from number nine, Margaret Penn

news: Traffic on the old harbour bridge came to a halt for nearly three hours on Tuesday morning after a herd of forty
sheep escaped from a lorry and refused to leave the roadway. Firefighters, two police officers and a retired shepherd
who happened to be on the bus eventually drove the animals into a nearby car park. No one was hurt, although the
driver of the lorry was treated for shock. A spokeswoman for the council said that the gate of the vehicle had not
been properly closed and that the bridge itself had suffered no damage.

recipe: Rub the butter into the flour with cold fingers until it looks like coarse sand, then stir in the sugar, a
pinch of salt and the grated peel of one lemon. Beat the egg with two spoonfuls of milk and add it little by little;
you may not need all of it. As soon as the dough holds together, stop. Wrap it in a cloth and let it rest somewhere
cool for half an hour, because warm dough sticks to everything and bakes hard. Roll it out no thinner than your little
finger.

instruction: Before you replace the tap, turn off the water under the sink and open the tap to let the pipe run empty.
Put a bucket below the joint, since some water always remains. Loosen the two nuts by turning them to the left, and
lift the old tap straight up. Clean the opening carefully: a single crumb of old sealant is enough to cause a leak.
Set the new tap in place, tighten the nuts by hand first and only then with the wrench, and turn the water back on
slowly.

dialogue: "Is this seat taken?" asked the man with the cello. "Not by a person," said the girl, "but my sandwich was
hoping to stretch out." He laughed and lowered the case onto the floor between them. "How far are you going?" "To the
end of the line. My aunt keeps bees there, and she says they behave better when I sing to them." "And do they?" "No.
But she gets a rest while I am at it." The train gave a jerk, and the sandwich slid into his lap.

story: Every evening at six the baker's dog carried one loaf to the house on the hill, and every evening it came back
with a coin in its mouth. Nobody had ever seen who lived up there. When the dog grew old and the road became too steep
for it, the baker went himself. The door was open, the table was laid for two, and on the plate lay a note in careful
handwriting: "Sit down. I have wondered for years who makes this bread, and I did not like to ask the dog."

letter: My dear Leo, you asked what I do all day now that I no longer teach. In the morning I argue with the stove.
Then I walk to the river, count the herons and come home by the longer path, so that I can complain about my knees.
After lunch I read your letters again, the funny ones first. The house is quieter than it used to be, but it isn't
sad. Come in the spring, when the road is dry, and bring that noisy friend of yours. There are more plums in the
cellar than one old man can eat.

news: The town library will stay open until midnight throughout the examination period, the mayor announced yesterday.
The decision follows a petition signed by more than six hundred pupils, many of whom share a bedroom and have no quiet
place to study at home. Volunteers from the local choir have offered to serve tea after nine o'clock, on condition
that nobody asks them to sing. The head librarian welcomed the plan but asked visitors to bring their own cushions, as
the chairs in the reading room are known to be hard.

recipe: For a soup that feeds six hungry people, soak two cups of white beans overnight. The next day, fry an onion
and three cloves of garlic in plenty of oil, add the drained beans, a bay leaf and enough water to cover everything by
a hand's breadth. Simmer gently for an hour and a half, and leave the salt until the end. Crush a third of the beans
against the side of the pot to thicken the soup, throw in a handful of chopped parsley, and serve it with toast.

instruction: If you get lost in the fog, the most useful thing you can do at first is nothing. Stop, sit down on your
rucksack, and eat something while your hands are still warm. Listen: running water, a road or a cowbell will tell you
more than your eyes. Mark the place where you are with a scarf or a pile of stones, and explore only as far as you can
still see it. Blow your whistle six times within a minute, wait a minute, and repeat. Never follow a stream downhill
over ground you do not know, as it may lead to a cliff.

dialogue: "You said the paint would be yellow," said Mrs Abara. "It is yellow," replied the painter. "It's mustard."
"Mustard is yellow." "Mustard is what you get when yellow gives up." He put down his brush and looked at the wall for
a long time, first with one eye and then with the other. "In the evening light," he said at last, "you'll think of
wheat fields." "In the evening light," she answered, "I have my eyes closed. Lemon, please, and by Thursday."

story: Long after the quarrel was forgotten, the two brothers still did not speak, though their fields touched. Then
one winter the wall between them fell down, and both came out with a barrow to mend it. They worked from opposite
ends, each choosing his stones with great care and saying nothing. Towards noon they met in the middle. One stone was
missing. The elder took off his cap, the younger looked at the gap, and in the end they left it as it was, just wide
enough for a man to walk through.

letter: To the manager of the night train: I wish to thank the attendant of carriage seven, whose name I failed to
ask. At two in the morning I discovered that I had left my medicine at home. She did not sigh, she did not look at her
watch; she telephoned ahead, and at the next stop a chemist in slippers was standing on the platform with a small
paper bag. I am told that this is not part of anyone's duties. Please let her know that I arrived safely, and that I
have kept the bag.

news: After four decades of silence, the clock of St Anne's church struck noon again on Sunday, seven minutes late.
Two sisters, both retired mechanics, had spent three winters cleaning its wheels and casting the parts that were
missing. Hundreds of villagers gathered in the square to listen, and some of the older ones wept. Not everybody is
delighted: the owner of the inn opposite fears for the sleep of her guests, and the council has agreed to silence the
bell between ten at night and six in the morning.

recipe: Take mackerel or any other oily fish, as fresh as you can get it, and make three shallow cuts on each side.
Mix a spoonful of honey with the juice of a lime, some crushed ginger and a little chilli, and rub this into the cuts.
Leave it for twenty minutes, no longer, or the lime will begin to cook the flesh. Grill the fish over strong heat,
four minutes a side, until the skin blisters. It is ready when the bones let go easily. Eat it with your hands and
plain rice.

instruction: The piano should stand against an inside wall, away from the stove and out of the sun. Have it tuned
twice a year, once when the heating season starts and again when it ends. Dust the keys with a soft, barely damp
cloth, always wiping from back to front so that no moisture runs between them. Keep vases and cups off the lid,
however tempting the space may look. And play it: an instrument that is left alone ages faster than one that has to
put up with beginners.

dialogue: "Doctor, is it serious?" "For you, no. For the tree, very." The boy looked down at his bandaged arm. "I only
wanted to see the nest." "Everyone who lies on this bed only wanted to see something. Last week it was a chimney."
"What was in the chimney?" "Mostly a chimney sweep." She washed her hands and wrote something in a green book. "You'll
keep the arm still for three weeks. You may read, complain and be waited on. Climbing is for people with two arms."
"And the birds?" "The birds, I hear, are doing well."

story: Nobody on the ship believed in the stowaway until the cheese began to disappear. First it was a slice, then a
wedge, and by the second week an entire wheel had gone. The captain set a trap with bells and string. At dawn they
rang, and the crew rushed to the storeroom with lanterns and brooms, only to find the cook himself, tangled up to his
knees and holding a knife. "I was testing it," he said with dignity. From then on, he was served last.

letter: Hello from the mountains! The hut has no electricity and only one blanket that doesn't smell of goat, so Priya
and I toss a coin for it each night. Yesterday we got up before dawn and saw the peaks go pink, one after another,
like lamps being lit. I had planned to say something poetic, but my teeth were chattering. We'll be down by the end of
the week if the weather holds. Please water the basil, feed the cat twice a day whatever she tells you, and don't open
the blue parcel.

news: Researchers working in a flooded cave have found a fish that seems to manage without eyes, colour or any known
source of food. The animal, hardly longer than a match, was first noticed by a diver who took it for a scrap of paper.
How it survives is still unclear; one suggestion is that it feeds on a thin film of bacteria that covers the rock. "We
have more questions than we came with," the leader of the expedition said, "which is the best result one can hope
for."

recipe: My grandmother never measured anything, so treat these amounts as a rumour. Slice five apples thinly and leave
the peel on. Toss them with brown sugar, cinnamon and a splash of rum, or orange juice if children are coming. Tear
some stale bread into pieces, fry it in butter till it's golden, and layer bread and apples in a deep dish, finishing
with bread. Cover and bake for forty minutes, then uncover and bake until the top crackles. It should be eaten warm,
straight from the dish, preferably while standing up.

instruction: When a guest arrives during the night, proceed as follows. Check the name against the list on the desk;
if it isn't there, give the person room twelve and write a note for the morning shift. Show where the light switches
are, because they are hidden behind the doors. Breakfast starts at seven, but anyone leaving earlier may ask for a
packed meal. Lock the front door again and leave the small lamp in the hall burning. If the telephone rings after
midnight, answer it in a low voice, as the walls are thin.

dialogue: "How much for the clock?" "Which one?" "The one that isn't ticking." The dealer scratched his chin. "That
one is more expensive." "But it's broken!" "Exactly. The others lie to you all day long. This one tells the truth
twice, and you always know it means well." The woman counted the notes in her purse. "I'll give you ten, and you'll
wrap it." "Fifteen, and I'll tell you when it is right." "Twelve," she said, "and I'll find out by myself."
"""


def _paragraphs() -> tuple[tuple[str, str], ...]:
    """(kind, text on one line), in the order above, which gives every kind to different languages."""
    blocks = (" ".join(block.split("\n")).partition(": ") for block in _TEXTS.strip().split("\n\n"))
    return tuple((kind, text) for kind, _, text in blocks)


PARAGRAPHS = _paragraphs()
