#!/usr/bin/env bash
# From nothing to a card, with a clock: four commands in an empty folder, an environment of its own, and a CSV file.
#   scripts/first-card.sh [FILE.csv] [COLUMN]     COLUMN tells persons apart; without a file one is invented
# It leaves the folder, in which the card is.
set -euo pipefail
package=$(cd "$(dirname "$0")/.." && pwd)
file=${1:+$(realpath "$1")}
entity=${2:-}
folder=$(mktemp -d -t first-card-XXXXXX)
cd "$folder"
if [ -z "$file" ]; then
  file=$folder/visits.csv entity=patient_id
  python3 - > "$file" <<'PY'
import random
draw = random.Random(1)
print("patient_id,visited_on,age,ward,stay_days,charge")
for _ in range(20_000):
    age, stay = draw.randint(0, 95), int(draw.expovariate(0.3))
    ward = draw.choices(["general", "surgery", "maternity", "oncology"], [5, 3, 1 + (20 < age < 45), age / 50])[0]
    day = f"2026-{draw.randint(1, 10):02d}-{draw.randint(1, 28):02d}"
    print(f"P{draw.randint(1, 8000)},{day},{age},{ward},{stay},{200 + 350 * stay + draw.randint(0, 400)}")
PY
fi
name=$(basename "$file" .csv)
unit=(); [ -z "$entity" ] || unit=(--entity "$entity" --max-rows 4)
export UNDERSTUDY_HOME=$folder/home PATH=$folder/env/bin:$PATH
python3 -m venv env

step() { echo; echo "\$ $*"; local before=$SECONDS; "$@"; echo "($((SECONDS - before)) s)"; }
SECONDS=0
step pip install --quiet --disable-pip-version-check -c "$package/constraints.txt" "$package"
step understudy init "$file" "${unit[@]}" --out "$name.yaml" --yes
step understudy ledger open "$name" --epsilon 3 --delta 1e-6 --own-delta 5e-7 "${unit[@]}"
step understudy release "$name.yaml"
echo
echo "four commands, $SECONDS s; the card: $(find "$folder" -name card.html -not -path '*/latest/*' | head -1)"
