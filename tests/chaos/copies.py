"""Whether the copies of a partition agree, by the files in the brokers' directories."""

from pathlib import Path

from barnabas.records.batch import batch_headers, decode_batch


def partition_directories(folders):
    """The directories of partitions in these log directories, by their names;
    not those on their way in or out.
    """
    found = {}
    for folder in folders:
        for each in filter(Path.is_dir, folder.iterdir()):
            if not each.name.endswith(("-future", "-delete", "-stray")):
                found.setdefault(each.name, []).append(each)
    return found


def differences(brokers, compacted):
    """What is wrong with the copies in the log directories of each broker; `compacted` says which topics are.

    A follower writes what its leader sends, so copies are the same byte for byte, though segments may begin
    at other offsets. But each broker compacts its own copy, at its own time and up to where its own segments
    end: copies of a compacted partition agree on the last record of each key, and on every record that more
    than one of them still has.
    """
    copies = {}
    for number, folders in brokers.items():
        for name, places in partition_directories(folders).items():
            if len(places) > 1:
                yield f"{name}: broker {number} has it more than once: {', '.join(map(str, places))}"
            files = sorted(places[0].glob("*.log"))
            data = b"".join(each.read_bytes() for each in files)
            # A log ends at the earliest where its last segment begins.
            copies.setdefault(name, {})[number] = data, int(files[-1].stem) if files else 0
    for name, found in copies.items():
        if len({data for data, _ in found.values()}) == 1:
            continue
        sizes = {number: len(data) for number, (data, _) in found.items()}
        what = f"their bytes are {sizes}"
        if name.rpartition("-")[0] in compacted:
            what = _difference_of_compacted(found)
        if what:
            yield f"{name}: the copies differ, {what}"


def _difference_of_compacted(copies):
    """None where the copies agree."""
    numbers = list(copies)
    read = {number: _read(*copy) for number, copy in copies.items()}
    first, (records, end) = numbers[0], read[numbers[0]]
    for number in numbers[1:]:
        others, other_end = read[number]
        if end != other_end:
            return f"{first} ends at {end}, {number} at {other_end}"
        both = records.keys() & others.keys()
        if strange := [offset for offset in sorted(both) if records[offset] != others[offset]]:
            return f"{first} and {number} have other records at {strange[:5]}"
        ours, theirs = _last_values(records), _last_values(others)
        if ours != theirs:
            keys = sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))
            return f"{first} and {number} have other last records of {keys[:5]}"
    return None


def _read(data, end):
    """All records of a log by their offsets, and where it ends: at the earliest at `end`."""
    records = {}
    for header in batch_headers(data):
        end = header.next_offset
        if not header.is_control:
            for offset, timestamp, key, value, *_ in decode_batch(data, header.position):
                records[offset] = (timestamp, key, value)
    return records, end


def _last_values(records):
    """Of each key the last record with a value: tombstones go from one copy before they go from another."""
    last = {key: (offset, value) for offset, (_, key, value) in sorted(records.items())}
    return {key: found for key, found in last.items() if found[1] is not None}
