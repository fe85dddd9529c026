"""The headline numbers of every probe, as people read them."""

from typing import Any


def headlines(probe: str, numbers: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return name, value here and value in the paper of each headline number."""

    def text(value: float | None, form: str = ".3g") -> str:
        return "–" if value is None else format(value, form)

    if probe == "composition":
        parts = numbers["log_log_slope_parts"] or {}
        return [
            ("relative error, median", text(numbers["relative_error"]["median"], ".1e"), "about 1e-3"),
            ("log-log slope over |M|²", text(numbers["log_log_slope"], ".2f"), "0.98"),
        ] + [(f"- of it from {name.replace('_', ' ')}", text(part, ".2f"), "–") for name, part in parts.items()]
    if probe == "resolution":
        return [
            (
                f"{field}, long edge {native} to {edge}: distance, r",
                f"{text(row['relative_distance']['mean'])}, {text(row['pearson_r']['mean'], '.3f')}",
                f"{row['paper']['relative_distance']}, {row['paper']['pearson_r']:.3f}" if row["paper"] else "–",
            )
            for field, part in numbers.items()
            for native, rows in part["native_long_edge"].items()
            for edge, row in rows.items()
        ] + [
            (f"{field}: variation between frames", text(part["variation_between_frames"]), "–")
            for field, part in numbers.items()
        ]
    if probe == "anatomy":
        chance = numbers["expected_by_chance"]
        return [
            ("weakest bin / strongest bin", text(numbers["weakest_bin_to_strongest"]), "–"),
            (f"neighbours of the same bin (chance {chance})", text(numbers["neighbours_of_the_same_bin"]), "clusters"),
        ]
    if probe == "invertibility":
        pole, zero = numbers["pole_at_plus_2"], numbers["zero_at_minus_2"]
        return [
            ("det A, lowest", text(numbers["det_a"]["lowest"]), "not zero"),
            ("largest |M|", text(numbers["largest_matrix_norm"]), "below 2"),
            ("pixels at +2, replaced by I", str(pole["pixels_replaced_by_identity"]), "–"),
            ("pixels at -2, without inverse", str(zero["pixels_without_inverse"]), "–"),
            ("nearest eigenvalue to +2", text(pole["least_eigenvalue_distance"]), "–"),
            ("nearest eigenvalue to -2", text(zero["least_eigenvalue_distance"]), "–"),
        ]
    if probe == "liveness":
        return [
            *((f"live units, {name}", text(value, ".0%"), "–") for name, value in numbers["live_units"].items()),
            ("parameters with a gradient", text(numbers["gradient_share"], ".0%"), "–"),
            ("other neighbours change (of 255)", text(numbers["neighbour_effect_in_levels_of_255"]), "–"),
            ("verdict", "; ".join(numbers["dead"]) or "alive", "–"),
        ]
    if probe == "heatmap":
        return [(f"change per frame, {name}", text(value), "–") for name, value in numbers["mean_change"].items()]
    return [
        ("r within frames", text(numbers["pearson_r_within_frames"]["mean"]), "–"),
        ("r over all pixels", text(numbers["pearson_r_over_all_pixels"]), "–"),
        ("mean absolute error", text(numbers["mean_absolute_error"]), "–"),
    ]
