"""Models of transformers that see and hear, made from small configurations: three steps of SGD on noise."""

import json
import time

import torch
import transformers as tf

LAYERS = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
IMAGES = dict(image_size=32, patch_size=8)


def noise(*shape):
    return torch.randn(*shape)


def vit():
    return tf.ViTForImageClassification(tf.ViTConfig(**LAYERS, **IMAGES, num_labels=5)), dict(
        pixel_values=noise(4, 3, 32, 32), labels=torch.arange(4)
    )


def deit():
    return tf.DeiTForImageClassification(tf.DeiTConfig(**LAYERS, **IMAGES, num_labels=5)), dict(
        pixel_values=noise(4, 3, 32, 32), labels=torch.arange(4)
    )


def beit():
    return tf.BeitForImageClassification(tf.BeitConfig(**LAYERS, **IMAGES, num_labels=5, use_relative_position_bias=True)), dict(
        pixel_values=noise(4, 3, 32, 32), labels=torch.arange(4)
    )


def dinov2():
    return tf.Dinov2ForImageClassification(
        tf.Dinov2Config(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, mlp_ratio=2, **IMAGES, num_labels=5)
    ), dict(pixel_values=noise(4, 3, 32, 32), labels=torch.arange(4))


def mae():
    config = tf.ViTMAEConfig(
        **LAYERS, **IMAGES, decoder_hidden_size=16, decoder_num_hidden_layers=1, decoder_num_attention_heads=2, decoder_intermediate_size=32
    )
    return tf.ViTMAEForPreTraining(config), dict(pixel_values=noise(4, 3, 32, 32))


def swin():
    config = tf.SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, num_labels=5)
    return tf.SwinForImageClassification(config), dict(pixel_values=noise(4, 3, 32, 32), labels=torch.arange(4))


def resnet():
    config = tf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=5)
    return tf.ResNetForImageClassification(config), dict(pixel_values=noise(4, 3, 32, 32), labels=torch.arange(4))


def convnext():
    config = tf.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, drop_path_rate=0.2, num_labels=5)
    return tf.ConvNextForImageClassification(config), dict(pixel_values=noise(4, 3, 32, 32), labels=torch.arange(4))


def segformer():
    config = tf.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16], patch_sizes=[7, 3], strides=[4, 2],
        num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=16, num_labels=3,
    )  # fmt: skip
    return tf.SegformerForSemanticSegmentation(config), dict(pixel_values=noise(2, 3, 32, 32), labels=torch.randint(0, 3, (2, 32, 32)))


def detr():
    backbone = tf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", out_features=["stage2"])
    config = tf.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone, d_model=32, num_queries=6, num_labels=3,
        encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
        auxiliary_loss=True,
    )  # fmt: skip
    labels = [
        dict(class_labels=torch.tensor([0, 2]), boxes=torch.tensor([[0.5, 0.5, 0.4, 0.4], [0.2, 0.3, 0.2, 0.1]])),
        dict(class_labels=torch.tensor([1]), boxes=torch.tensor([[0.6, 0.4, 0.5, 0.3]])),
    ]
    return tf.DetrForObjectDetection(config), dict(pixel_values=noise(2, 3, 64, 64), labels=labels)


def clip():
    config = tf.CLIPConfig(
        text_config=LAYERS | dict(vocab_size=64, max_position_embeddings=16, bos_token_id=1, eos_token_id=63, pad_token_id=0),
        vision_config=LAYERS | IMAGES,
        projection_dim=16,
    )
    tokens = torch.randint(3, 63, (4, 12))
    tokens[:, -1] = 63
    return tf.CLIPModel(config), dict(input_ids=tokens, pixel_values=noise(4, 3, 32, 32), return_loss=True)


def whisper():
    config = tf.WhisperConfig(
        vocab_size=64, num_mel_bins=16, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=20, max_target_positions=16, decoder_start_token_id=1, bos_token_id=1,
        eos_token_id=2, pad_token_id=0, suppress_tokens=None, begin_suppress_tokens=None, apply_spec_augment=True, mask_time_prob=0.2, mask_time_length=2,
    )  # fmt: skip
    return tf.WhisperForConditionalGeneration(config), dict(input_features=noise(2, 16, 40), labels=torch.randint(3, 64, (2, 8)))


def wav2vec2():
    config = tf.Wav2Vec2Config(
        **LAYERS, vocab_size=16, conv_dim=(16, 16), conv_stride=(4, 2), conv_kernel=(8, 4), num_feat_extract_layers=2, num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2, mask_time_prob=0.0, layerdrop=0.0, pad_token_id=0, ctc_loss_reduction="mean", ctc_zero_infinity=True,
    )  # fmt: skip
    return tf.Wav2Vec2ForCTC(config), dict(input_values=noise(2, 400), labels=torch.randint(1, 16, (2, 6)))


def vision_encoder_decoder():
    vision, text = tf.ViTConfig(**LAYERS, **IMAGES), tf.BertConfig(**LAYERS, vocab_size=64, max_position_embeddings=32)
    config = tf.VisionEncoderDecoderConfig.from_encoder_decoder_configs(vision, text)
    config.decoder_start_token_id, config.pad_token_id = 1, 0
    return tf.VisionEncoderDecoderModel(config), dict(pixel_values=noise(2, 3, 32, 32), labels=torch.randint(3, 64, (2, 8)))


seconds = 0.0
for make in (vit, deit, beit, dinov2, mae, swin, resnet, convnext, segformer, detr, clip, whisper, wav2vec2, vision_encoder_decoder):
    tf.set_seed(0)
    model, batch = make()
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    started = time.perf_counter()
    for _ in range(3):
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(json.dumps({"model": make.__name__, "loss": loss.item(), "norm": norm.item()}))
    seconds += time.perf_counter() - started
print(json.dumps({"seconds": seconds}))
