"""`headrace models`, as a user meets it."""

import json


def test_models_are_a_table_of_at_most_80_columns(call):
    code, out, err = call("models")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["model", "takes", "input", "weights", "file"]
    assert next(line for line in lines if line.startswith("resnet50 ")).split()[:5] == [
        *("resnet50", "pictures", "224x224", "25.6M", "98")
    ]
    assert max(map(len, lines)) <= 80


def test_the_levels_of_preprocessing_are_printed_as_the_calls_they_are(call):
    code, out, _ = call("models", "resnet50", "--prep")
    assert code == 0
    assert out.splitlines()[3:] == [
        "Preprocessing of resnet50: functions of torchvision.transforms.v2.functional, in",
        "order, on uint8 [N, 3, H, W]; the same on the CPU and on a GPU",
        "  simple",
        "    resize(size=[224, 224], interpolation='bilinear', antialias=True)",
        "    to_dtype(dtype=torch.float32, scale=True)",
        "    normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])",
        "  medium",
        "    resize(size=[232], interpolation='bilinear', antialias=True)",
        "    center_crop(output_size=[224, 224])",
        "    to_dtype(dtype=torch.float32, scale=True)",
        "    normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])",
        "  complex",
        "    gaussian_blur(kernel_size=[5, 5])",
        "    autocontrast()",
        "    adjust_sharpness(sharpness_factor=1.5)",
        "    resize(size=[232], interpolation='bilinear', antialias=True)",
        "    center_crop(output_size=[224, 224])",
        "    to_dtype(dtype=torch.float32, scale=True)",
        "    normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])",
    ]


def test_json_holds_what_the_table_says_and_the_levels(call):
    code, out, _ = call("models", "r3d_18", "--prep", "--json")
    (found,) = json.loads(out)
    assert code == 0
    assert (found["name"], found["kind"], found["num_frames"]) == ("r3d_18", "clips", 16)
    assert list(found["prep"]) == ["simple", "medium", "complex"]


def test_a_model_that_is_none_is_an_error_of_one_line(call):
    code, out, err = call("models", "resnet5O")
    assert (code, out) == (2, "")
    assert "did you mean resnet50" in err
