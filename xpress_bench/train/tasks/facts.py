"""Small tables of stable facts, one `subject=answer` a word; `_` stands for a blank inside an entry."""

POLYGONS = "triangle=3 square=4 rectangle=4 pentagon=5 hexagon=6 heptagon=7 octagon=8 nonagon=9 decagon=10 dodecagon=12"
MONTH_DAYS = (
    "January=31 March=31 April=30 May=31 June=30 July=31 August=31 September=30 October=31 November=30 December=31"
)
MONTH_AFTER = (
    "January=February February=March March=April April=May May=June June=July July=August August=September "
    "September=October October=November November=December December=January"
)
WEEKDAY_AFTER = (
    "Monday=Tuesday Tuesday=Wednesday Wednesday=Thursday Thursday=Friday Friday=Saturday Saturday=Sunday Sunday=Monday"
)
PLURALS = (
    "child=children mouse=mice foot=feet tooth=teeth goose=geese man=men woman=women ox=oxen leaf=leaves "
    "knife=knives wife=wives wolf=wolves half=halves shelf=shelves thief=thieves loaf=loaves city=cities "
    "baby=babies lady=ladies story=stories party=parties box=boxes bus=buses church=churches dish=dishes "
    "glass=glasses watch=watches hero=heroes potato=potatoes tomato=tomatoes sheep=sheep deer=deer key=keys "
    "toy=toys day=days piano=pianos photo=photos roof=roofs crisis=crises cherry=cherries"
)
PASTS = (
    "go=went see=saw take=took give=gave come=came run=ran eat=ate drink=drank sing=sang swim=swam begin=began "
    "write=wrote drive=drove ride=rode break=broke speak=spoke steal=stole choose=chose know=knew grow=grew "
    "throw=threw fly=flew draw=drew buy=bought bring=brought think=thought teach=taught catch=caught find=found "
    "hold=held tell=told sell=sold feel=felt keep=kept sleep=slept leave=left lose=lost build=built send=sent "
    "spend=spent make=made hear=heard say=said stand=stood win=won fall=fell"
)
OPPOSITES = (
    "hot=cold big=small tall=short long=short high=low open=closed full=empty light=dark day=night young=old "
    "new=old early=late fast=slow hard=soft wet=dry clean=dirty rich=poor strong=weak loud=quiet happy=sad "
    "good=bad left=right up=down in=out true=false thick=thin wide=narrow deep=shallow sweet=bitter heavy=light "
    "cheap=expensive easy=difficult first=last near=far begin=end buy=sell push=pull win=lose love=hate "
    "remember=forget arrive=leave always=never before=after inside=outside"
)
YOUNG = (
    "dog=puppy cat=kitten cow=calf horse=foal sheep=lamb goat=kid pig=piglet hen=chick duck=duckling "
    "goose=gosling lion=cub bear=cub deer=fawn frog=tadpole swan=cygnet kangaroo=joey hare=leveret owl=owlet "
    "eagle=eaglet elephant=calf whale=calf"
)
HOMES = (
    "bee=hive bird=nest spider=web fox=den rabbit=burrow horse=stable dog=kennel pig=sty bear=den beaver=lodge "
    "ant=anthill"
)
COLOURS = (
    "grass=green snow=white coal=black a_lemon=yellow a_ripe_tomato=red a_clear_sky=blue milk=white "
    "an_emerald=green a_ruby=red a_sapphire=blue chocolate=brown a_carrot=orange a_ripe_banana=yellow blood=red "
    "salt=white ink=black a_flamingo=pink"
)
MIXTURES = (
    "blue_and_yellow=green red_and_yellow=orange red_and_blue=purple black_and_white=grey red_and_white=pink "
    "blue_and_white=light_blue"
)
PLANETS = "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune"
ELEMENTS = (
    "hydrogen=H helium=He lithium=Li boron=B carbon=C nitrogen=N oxygen=O fluorine=F neon=Ne sodium=Na "
    "magnesium=Mg aluminium=Al silicon=Si phosphorus=P sulphur=S chlorine=Cl argon=Ar potassium=K calcium=Ca "
    "titanium=Ti chromium=Cr manganese=Mn iron=Fe cobalt=Co nickel=Ni copper=Cu zinc=Zn bromine=Br tin=Sn "
    "iodine=I lead=Pb mercury=Hg uranium=U platinum=Pt barium=Ba"
)
MEASURES = (
    "length=metre mass=kilogram time=second temperature=kelvin force=newton energy=joule power=watt "
    "pressure=pascal frequency=hertz voltage=volt resistance=ohm electric_current=ampere angle=radian"
)
COUNTS = (
    "minutes_in_an_hour=60 seconds_in_a_minute=60 hours_in_a_day=24 days_in_a_week=7 months_in_a_year=12 "
    "years_in_a_century=100 years_in_a_decade=10 metres_in_a_kilometre=1000 grams_in_a_kilogram=1000 "
    "centimetres_in_a_metre=100 letters_in_the_English_alphabet=26 eggs_in_a_dozen=12 legs_on_a_spider=8 "
    "legs_on_an_insect=6 wheels_on_a_bicycle=2 wheels_on_a_tricycle=3 strings_on_a_violin=4 "
    "players_in_a_football_team=11 sides_on_a_cube=6 corners_on_a_cube=8 degrees_in_a_right_angle=90 "
    "degrees_in_a_circle=360 weeks_in_a_year=52 colours_in_a_rainbow=7 keys_on_a_piano=88 "
    "squares_on_a_chessboard=64 fingers_on_two_hands=10"
)
# Country = capital / continent. Countries whose capital is disputed or has moved are left out.
COUNTRIES = (
    "France=Paris/Europe Spain=Madrid/Europe Italy=Rome/Europe Germany=Berlin/Europe Portugal=Lisbon/Europe "
    "Austria=Vienna/Europe Poland=Warsaw/Europe Greece=Athens/Europe Norway=Oslo/Europe Sweden=Stockholm/Europe "
    "Finland=Helsinki/Europe Denmark=Copenhagen/Europe Ireland=Dublin/Europe Hungary=Budapest/Europe "
    "Romania=Bucharest/Europe Bulgaria=Sofia/Europe Croatia=Zagreb/Europe Slovenia=Ljubljana/Europe "
    "Slovakia=Bratislava/Europe Belgium=Brussels/Europe Iceland=Reykjavik/Europe Latvia=Riga/Europe "
    "Lithuania=Vilnius/Europe Estonia=Tallinn/Europe Serbia=Belgrade/Europe Albania=Tirana/Europe "
    "Egypt=Cairo/Africa Morocco=Rabat/Africa Algeria=Algiers/Africa Tunisia=Tunis/Africa Kenya=Nairobi/Africa "
    "Ghana=Accra/Africa Senegal=Dakar/Africa Mali=Bamako/Africa Angola=Luanda/Africa Zambia=Lusaka/Africa "
    "Zimbabwe=Harare/Africa Uganda=Kampala/Africa Rwanda=Kigali/Africa Ethiopia=Addis_Ababa/Africa "
    "Namibia=Windhoek/Africa Madagascar=Antananarivo/Africa Japan=Tokyo/Asia China=Beijing/Asia "
    "India=New_Delhi/Asia Nepal=Kathmandu/Asia Thailand=Bangkok/Asia Vietnam=Hanoi/Asia Mongolia=Ulaanbaatar/Asia "
    "Pakistan=Islamabad/Asia Iran=Tehran/Asia Iraq=Baghdad/Asia Jordan=Amman/Asia Oman=Muscat/Asia "
    "Canada=Ottawa/North_America Mexico=Mexico_City/North_America Cuba=Havana/North_America "
    "Jamaica=Kingston/North_America Brazil=Brasilia/South_America Argentina=Buenos_Aires/South_America "
    "Peru=Lima/South_America Colombia=Bogota/South_America Ecuador=Quito/South_America "
    "Uruguay=Montevideo/South_America Venezuela=Caracas/South_America Paraguay=Asuncion/South_America "
    "Australia=Canberra/Oceania Fiji=Suva/Oceania Tonga=Nuku'alofa/Oceania Samoa=Apia/Oceania"
)


def pairs(table: str) -> list[tuple[str, str]]:
    """The (subject, answer) pairs of a table, with blanks restored."""
    rows = (word.replace("_", " ").split("=") for word in table.split())
    return [(subject, answer) for subject, answer in rows]
