"""Causes with their effects and reasons, and the kinds of things that the instruction task lists."""

# Blocks of three lines: what happens, then the two sentences that say why.
CAUSES = """
plants need light
Plants use light to make sugar from water and air.
Without light they have no food and stop growing.

ice floats on water
Water takes up more room when it freezes.
The same room then holds less mass, so the ice stays on top.

we wear warm clothes in winter
Clothes hold a layer of air close to the skin.
This air keeps the heat of the body from getting away.

bread rises
Yeast eats the sugar in the dough and gives off gas.
The gas makes small bubbles that push the dough up.

leaves fall in autumn
Trees lose water through their leaves.
In the cold months water is scarce, so they drop the leaves.

iron rusts
Iron joins with oxygen when it is wet.
The new substance is red, soft and easy to break.

we see the flash before we hear the thunder
Light travels much faster than sound.
The flash arrives at once, while the sound needs some seconds.

a bicycle needs oil
The parts of the chain rub against each other.
Oil lets them slide, so they wear out more slowly.

birds fly south
Food becomes hard to find when it is cold.
In the south there are more insects and seeds to eat.

wet clothes dry faster in the wind
Water leaves the cloth as vapour.
The wind carries the vapour away, so more water can follow.

a hot drink cools down
Heat moves from warm things to cold things.
The drink gives its heat to the air and the cup.

people sleep at night
The body follows the daily change of light and dark.
At night it rests and repairs what was used during the day.

the moon seems to change its shape
We see only the part that the Sun lights.
As the moon moves around the Earth, that part changes.

salt is put on icy roads
Salt water freezes only when it is much colder.
The salt therefore melts the ice and makes the road safer.

it is good to make a plan
A plan shows what has to be done first.
It saves time, because fewer steps are forgotten.

metal spoons get hot in soup
Metal carries heat very well.
The heat of the soup runs up the spoon to the hand.

a ball comes back down
The Earth pulls every object towards it.
This pull slows the ball and then brings it back.

we wash our hands
Hands touch many things that carry germs.
Soap and water take the germs away before they reach the mouth.

cities have parks
Parks give people a quiet place to rest.
Trees also clean the air and keep the streets cool.

fish have gills
Fish need oxygen, which is dissolved in the water.
Their gills take it out of the water as it flows past.
"""
KINDS = {
    "fruits": "apple pear plum cherry grape lemon orange peach banana melon fig mango",
    "animals": "dog horse cow cat sheep goat fox wolf bear lion rabbit mouse deer otter",
    "colours": "red blue green yellow black white brown grey purple orange pink",
    "kitchen tools": "knife spoon fork pan pot bowl sieve whisk grater ladle kettle",
    "clothes": "shirt coat hat scarf sock shoe glove dress jacket belt sweater",
    "musical instruments": "violin flute piano drum harp trumpet guitar cello organ clarinet",
    "vegetables": "carrot onion leek cabbage potato turnip bean pea spinach pepper",
    "pieces of furniture": "table chair bed desk shelf sofa cupboard stool bench wardrobe",
    "birds": "robin owl crow swan eagle sparrow heron finch duck gull stork",
    "tools": "hammer saw drill file axe spade rake plane chisel wrench",
    "vehicles": "car bus train tram bicycle ship boat lorry van ferry",
    "professions": "teacher baker nurse farmer pilot judge tailor painter doctor carpenter",
}
