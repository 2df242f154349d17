"""The shared vocabulary of the translation task, one entry a line."""

from .grammar import Adjective, Noun, Phrase, Subject, Verb

# English, plural | French, gender, plural | German, gender, plural | classes used by verbs and adjectives
_NOUNS = """
book books|livre m livres|Buch n Bücher|text thing
letter letters|lettre f lettres|Brief m Briefe|text
newspaper newspapers|journal m journaux|Zeitung f Zeitungen|paper
poem poems|poème m poèmes|Gedicht n Gedichte|text
story stories|histoire f histoires|Geschichte f Geschichten|text
report reports|rapport m rapports|Bericht m Berichte|text
lamp lamps|lampe f lampes|Lampe f Lampen|thing device
chair chairs|chaise f chaises|Stuhl m Stühle|thing device
table tables|table f tables|Tisch m Tische|thing device
bicycle bicycles|vélo m vélos|Fahrrad n Fahrräder|thing device
clock clocks|horloge f horloges|Uhr f Uhren|thing device
car cars|voiture f voitures|Auto n Autos|thing device
box boxes|boîte f boîtes|Kiste f Kisten|thing small
bag bags|sac m sacs|Tasche f Taschen|thing small
key keys|clé f clés|Schlüssel m Schlüssel|thing small
coat coats|manteau m manteaux|Mantel m Mäntel|thing small
hat hats|chapeau m chapeaux|Hut m Hüte|thing small
bottle bottles|bouteille f bouteilles|Flasche f Flaschen|thing small
cup cups|tasse f tasses|Tasse f Tassen|thing small
umbrella umbrellas|parapluie m parapluies|Regenschirm m Regenschirme|thing small
basket baskets|panier m paniers|Korb m Körbe|thing small
plate plates|assiette f assiettes|Teller m Teller|thing small
knife knives|couteau m couteaux|Messer n Messer|thing small
apple apples|pomme f pommes|Apfel m Äpfel|food
cake cakes|gâteau m gâteaux|Kuchen m Kuchen|food
soup soups|soupe f soupes|Suppe f Suppen|meal
egg eggs|œuf m œufs|Ei n Eier|food
pear pears|poire f poires|Birne f Birnen|food
orange oranges|orange f oranges|Orange f Orangen|food
tomato tomatoes|tomate f tomates|Tomate f Tomaten|food
carrot carrots|carotte f carottes|Karotte f Karotten|food
"""
# English | French masculine, feminine, place | German | classes
_ADJECTIVES = """
small|petit petite before|klein|thing device small food
big|grand grande before|groß|thing device small food
pretty|joli jolie before|hübsch|thing device small
red|rouge rouge after|rot|thing device small food
blue|bleu bleue after|blau|thing device small
green|vert verte after|grün|thing device small food
black|noir noire after|schwarz|thing device small
white|blanc blanche after|weiß|thing device small
grey|gris grise after|grau|thing device small
new|neuf neuve after|neu|thing device small
heavy|lourd lourde after|schwer|thing device small
long|long longue before|lang|text
funny|drôle drôle after|lustig|text
sad|triste triste after|traurig|text
interesting|intéressant intéressante after|interessant|text paper
fresh|frais fraîche after|frisch|food
warm|chaud chaude after|warm|meal
cold|froid froide after|kalt|meal
good|bon bonne before|gut|text food meal
"""
# English: base, third person, past | French: four forms | participle, future stem | German: three forms | participle |
# classes of object, none for a verb without one
_VERBS = """
read reads read|lis lit lisons lisent|lu lir|lese liest lesen|gelesen|text paper
write writes wrote|écris écrit écrivons écrivent|écrit écrir|schreibe schreibt schreiben|geschrieben|text
buy buys bought|achète achète achetons achètent|acheté achèter|kaufe kauft kaufen|gekauft|text paper thing food
sell sells sold|vends vend vendons vendent|vendu vendr|verkaufe verkauft verkaufen|verkauft|thing food
find finds found|trouve trouve trouvons trouvent|trouvé trouver|finde findet finden|gefunden|text paper thing
lose loses lost|perds perd perdons perdent|perdu perdr|verliere verliert verlieren|verloren|small
bring brings brought|apporte apporte apportons apportent|apporté apporter|bringe bringt bringen|gebracht|text small food
look~for looks~for looked~for|cherche cherche cherchons cherchent|cherché chercher|suche sucht suchen|gesucht|text small
carry carries carried|porte porte portons portent|porté porter|trage trägt tragen|getragen|small
forget forgets forgot|oublie oublie oublions oublient|oublié oublier|vergesse vergisst vergessen|vergessen|text small
repair repairs repaired|répare répare réparons réparent|réparé réparer|repariere repariert reparieren|repariert|device
paint paints painted|peins peint peignons peignent|peint peindr|male malt malen|gemalt|thing
clean cleans cleaned|nettoie nettoie nettoyons nettoient|nettoyé nettoier|putze putzt putzen|geputzt|device
eat eats ate|mange mange mangeons mangent|mangé manger|esse isst essen|gegessen|food meal
work works worked|travaille travaille travaillons travaillent|travaillé travailler|arbeite arbeitet arbeiten|gearbeitet|
wait waits waited|attends attend attendons attendent|attendu attendr|warte wartet warten|gewartet|
sleep sleeps slept|dors dort dormons dorment|dormi dormir|schlafe schläft schlafen|geschlafen|
sing sings sang|chante chante chantons chantent|chanté chanter|singe singt singen|gesungen|
play plays played|joue joue jouons jouent|joué jouer|spiele spielt spielen|gespielt|
dance dances danced|danse danse dansons dansent|dansé danser|tanze tanzt tanzen|getanzt|
"""
_MOVES = """
go goes went|vais va allons vont|allé ir|gehe geht gehen|gegangen|walk
go goes went|vais va allons vont|allé ir|fahre fährt fahren|gefahren|ride
come comes came|viens vient venons viennent|venu viendr|komme kommt kommen|gekommen|walk ride
stay stays stayed|reste reste restons restent|resté rester|bleibe bleibt bleiben|geblieben|rest
"""


def _noun(line: str) -> Noun:
    en, fr, de, tags = line.split("|")
    (en1, en2), (fr1, fr_gender, fr2), (de1, de_gender, de2) = en.split(), fr.split(), de.split()
    return Noun(en1, en2, fr1, fr_gender, fr2, de1, de_gender, de2, frozenset(tags.split()))


def _adjective(line: str) -> Adjective:
    en, fr, de, tags = line.split("|")
    masculine, feminine, where = fr.split()
    return Adjective(en, masculine, feminine, where == "before", de, frozenset(tags.split()))


def _verb(line: str, moves: bool) -> Verb:
    en, fr, fr_rest, de, de_participle, tags = line.split("|")
    # A tilde holds the two words of one form together.
    base, third, past = (form.replace("~", " ") for form in en.split())
    participle, stem = fr_rest.split()
    fr_forms, de_forms = tuple(fr.split()), tuple(de.split())
    return Verb(base, third, past, fr_forms, participle, stem, de_forms, de_participle, moves, frozenset(tags.split()))


def _lines(table: str) -> list[str]:
    return table.strip().split("\n")


NOUNS = tuple(_noun(line) for line in _lines(_NOUNS))
ADJECTIVES = tuple(_adjective(line) for line in _lines(_ADJECTIVES))
VERBS = tuple(_verb(line, False) for line in _lines(_VERBS))
MOVES = tuple(_verb(line, True) for line in _lines(_MOVES))

HE = Subject(Phrase("he", "il", "er"), 1)
SHE = Subject(Phrase("she", "elle", "sie"), 1, True)
THEY = Subject(Phrase("they", "ils", "sie"), 3)
PRONOUNS = (Subject(Phrase("I", "je", "ich"), 0), Subject(Phrase("we", "nous", "wir"), 2), HE, SHE, THEY)
_WOMEN = "Anna Clara Emma Julia Laura Lena Marie Nora Sophie Vera".split()
_MEN = "Paul Martin Thomas Oscar Felix Simon David Lucas Victor Robert".split()
PEOPLE = (
    *(Subject(Phrase(name, name, name), 1, True) for name in _WOMEN),
    *(Subject(Phrase(name, name, name), 1) for name in _MEN),
    Subject(Phrase("the teacher", "le professeur", "der Lehrer"), 1),
    Subject(Phrase("the doctor", "le médecin", "der Arzt"), 1),
    Subject(Phrase("the gardener", "le jardinier", "der Gärtner"), 1),
    Subject(Phrase("the baker", "le boulanger", "der Bäcker"), 1),
    Subject(Phrase("my sister", "ma sœur", "meine Schwester"), 1, True),
    Subject(Phrase("my mother", "ma mère", "meine Mutter"), 1, True),
    Subject(Phrase("our aunt", "notre tante", "unsere Tante"), 1, True),
    Subject(Phrase("my brother", "mon frère", "mein Bruder"), 1),
    Subject(Phrase("my father", "mon père", "mein Vater"), 1),
    Subject(Phrase("our uncle", "notre oncle", "unser Onkel"), 1),
    Subject(Phrase("the children", "les enfants", "die Kinder"), 3),
    Subject(Phrase("my parents", "mes parents", "meine Eltern"), 3),
    Subject(Phrase("the pupils", "les élèves", "die Schüler"), 3),
)


def _phrases(table: str) -> tuple[Phrase, ...]:
    return tuple(Phrase(*line.split("|")) for line in _lines(table))


PLACES = _phrases("""
in the garden|dans le jardin|im Garten
in the kitchen|dans la cuisine|in der Küche
in the library|à la bibliothèque|in der Bibliothek
at the market|au marché|auf dem Markt
at the station|à la gare|am Bahnhof
at school|à l'école|in der Schule
in the park|dans le parc|im Park
at home|à la maison|zu Hause
in the office|au bureau|im Büro
in the hotel|à l'hôtel|im Hotel
in the village|au village|im Dorf
in the city|en ville|in der Stadt
""")
WALKS = _phrases("""
to the market|au marché|zum Markt
to school|à l'école|zur Schule
to the station|à la gare|zum Bahnhof
to the library|à la bibliothèque|zur Bibliothek
to the doctor|chez le médecin|zum Arzt
to the park|au parc|zum Park
into the garden|dans le jardin|in den Garten
into the kitchen|dans la cuisine|in die Küche
""")
RIDES = _phrases("\n".join(
    f"to {en} by {by}|à {fr} {en_train}|{mit} nach {de}"
    for en, fr, de in (("Paris", "Paris", "Paris"), ("Berlin", "Berlin", "Berlin"), ("Vienna", "Vienne", "Wien"),
                       ("London", "Londres", "London"), ("Rome", "Rome", "Rom"), ("Madrid", "Madrid", "Madrid"))
    for by, en_train, mit in (("train", "en train", "mit dem Zug"), ("bus", "en bus", "mit dem Bus"),
    ("car", "en voiture", "mit dem Auto"))
))  # fmt: skip
HABITS = _phrases("""
every day|chaque jour|jeden Tag
every morning|chaque matin|jeden Morgen
every evening|chaque soir|jeden Abend
every week|chaque semaine|jede Woche
every Monday|chaque lundi|jeden Montag
every Friday|chaque vendredi|jeden Freitag
every Sunday|chaque dimanche|jeden Sonntag
in the morning|le matin|am Morgen
in winter|en hiver|im Winter
in summer|en été|im Sommer
""")
BEFORE = _phrases("""
yesterday|hier|gestern
last week|la semaine dernière|letzte Woche
last month|le mois dernier|letzten Monat
last year|l'année dernière|letztes Jahr
last Monday|lundi dernier|letzten Montag
last Friday|vendredi dernier|letzten Freitag
three days ago|il y a trois jours|vor drei Tagen
two weeks ago|il y a deux semaines|vor zwei Wochen
""")
AFTER = _phrases("""
tomorrow|demain|morgen
next week|la semaine prochaine|nächste Woche
next month|le mois prochain|nächsten Monat
next year|l'année prochaine|nächstes Jahr
next Monday|lundi prochain|nächsten Montag
next Friday|vendredi prochain|nächsten Freitag
in three days|dans trois jours|in drei Tagen
in two weeks|dans deux semaines|in zwei Wochen
""")
MONTHS = _phrases("""
January|janvier|Januar
February|février|Februar
March|mars|März
April|avril|April
May|mai|Mai
June|juin|Juni
July|juillet|Juli
August|août|August
September|septembre|September
October|octobre|Oktober
November|novembre|November
December|décembre|Dezember
""")
# The German side has its verb last, as after weil, als, wenn and dass.
PAST_STATES = _phrases("""
it was raining|il pleuvait|es regnete
it was very cold|il faisait très froid|es sehr kalt war
the sun was shining|le soleil brillait|die Sonne schien
the shop was closed|le magasin était fermé|das Geschäft geschlossen war
the train was late|le train était en retard|der Zug verspätet war
the guests were there|les invités étaient là|die Gäste da waren
the house was empty|la maison était vide|das Haus leer war
everyone was tired|tout le monde était fatigué|alle müde waren
it was already dark|il faisait déjà nuit|es schon dunkel war
there was no school|il n'y avait pas d'école|keine Schule war
""")
HABIT_STATES = _phrases("""
it rains|il pleut|es regnet
it is cold|il fait froid|es kalt ist
the sun shines|le soleil brille|die Sonne scheint
the shop is closed|le magasin est fermé|das Geschäft geschlossen ist
there is enough time|il y a assez de temps|genug Zeit ist
it is quiet|c'est calme|es ruhig ist
the train is late|le train est en retard|der Zug verspätet ist
""")
SPEECH = _phrases("""
says|dit|sagt
knows|sait|weiß
thinks|pense|denkt
writes|écrit|schreibt
believes|croit|glaubt
""")
FURNITURE = tuple(noun for noun in NOUNS if noun.en in {"table", "chair", "box", "lamp", "car"})
