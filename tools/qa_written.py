"""Written for the qa suite: general knowledge whose answers do not age; `question|accepted answer|another`."""

KNOWLEDGE = """
Who wrote the play Hamlet?|William Shakespeare|Shakespeare
Which gas do green plants take from the air to make sugar?|carbon dioxide|CO2
Which ocean is the largest on Earth?|the Pacific Ocean|Pacific|Pacific Ocean
At how many degrees Celsius does pure water boil at sea level?|100|100 degrees|100 degrees Celsius|100 °C
Which organ pumps blood through the human body?|the heart|heart
What is the largest animal that lives today?|the blue whale|blue whale|whale
How many bones does an adult human usually have?|206|206 bones
Who painted the Mona Lisa?|Leonardo da Vinci|Leonardo|da Vinci
What is the hardest natural mineral?|diamond
Which bone is the longest in the human body?|the femur|femur|thigh bone|thighbone
What do we call a word that means the same as another word?|a synonym|synonym
Which scientist published the general theory of relativity in 1915?|Albert Einstein|Einstein
In which year did people first walk on the Moon?|1969
Which instrument is used to measure temperature?|a thermometer|thermometer
Through which part does a plant take up most of its water?|the roots|root|roots
What is the change from liquid to gas called?|evaporation|vaporisation|vaporization|boiling
Which language is spoken by most people in Brazil?|Portuguese
What is the name of the longest side of a right-angled triangle?|the hypotenuse|hypotenuse
Which cells of the blood fight infections?|white blood cells|white cells|leukocytes|leucocytes
In which board game is the king put in checkmate?|chess
Which force makes an apple fall to the ground?|gravity|gravitation|the force of gravity
Who wrote the novel Pride and Prejudice?|Jane Austen|Austen
Which vitamin does human skin make in sunlight?|vitamin D|D|D3|vitamin D3
What kind of insect does a silkworm turn into when it is fully grown?|a moth|moth|silk moth
From which grass-like crop is most white bread made?|wheat
Which desert covers most of North Africa?|the Sahara|Sahara|Sahara Desert
What do bees collect from flowers to make honey?|nectar
Which number system uses only the digits 0 and 1?|binary|the binary system|binary number system|base 2|base two
Which part of the eye lets the light in and grows wider in the dark?|the pupil|pupil
What is the name for a piece of land with water on all sides?|an island|island
"""


def knowledge() -> list[tuple[str, list[str]]]:
    """The (question, accepted answers) pairs in the order above."""
    rows = (line.split("|") for line in KNOWLEDGE.strip().split("\n"))
    return [(question, answers) for question, *answers in rows]
