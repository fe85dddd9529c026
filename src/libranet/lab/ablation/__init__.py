"""The ablation study: variants of one recipe, trained and measured alike."""
