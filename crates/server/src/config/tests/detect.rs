//! What a folder is taken for.

use super::*;

const RUNTIME_INDEX: &str = "<?php require_once dirname(__DIR__).'/vendor/autoload_runtime.php';";

fn symfony(installed: &str) -> Project {
    Project::new(&[
        ("config/bundles.php", ""),
        ("public/index.php", RUNTIME_INDEX),
        ("vendor/composer/installed.json", installed),
    ])
}

#[test]
fn symfony_with_a_runtime_of_7_4_is_resident() {
    let project = symfony(r#"{"packages": [{"name": "symfony/runtime", "version": "v7.4.1"}]}"#);
    let (mode, root, script, reasons) = project.entry(&[]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Resident, "public", Some("public/index.php"))
    );
    assert_eq!(
        reasons,
        [
            "found config/bundles.php: a Symfony application",
            "symfony/runtime v7.4.1 can stay resident: resident mode with public/index.php"
        ]
    );
}

#[test]
fn symfony_with_an_older_runtime_is_classic_and_told_how_to_become_resident() {
    let runtime = r#"{"name": "symfony/runtime", "version": "v6.4.3"}"#;
    let project = symfony(&format!("[{runtime}]"));
    let (mode, root, script, reasons) = project.entry(&[]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Classic, "public", Some("public/index.php"))
    );
    assert_eq!(
        reasons[1],
        "symfony/runtime v6.4.3 cannot stay resident by itself; install hearth/hearth and set extra.runtime.class in \
         composer.json to Hearth\\Bridge\\Symfony\\Runtime"
    );
    assert_eq!(
        reasons[2],
        "classic mode; URLs that name no file go to public/index.php"
    );

    let project = symfony(&format!(
        r#"[{runtime}, {{"name": "hearth/hearth", "version": "0.1.0"}}]"#
    ));
    let (mode, _, _, reasons) = project.entry(&[]);
    assert_eq!(mode, Mode::Classic);
    assert!(
        reasons[1].contains("by itself; set extra.runtime.class"),
        "{reasons:?}"
    );
}

#[test]
fn symfony_whose_loader_names_our_runtime_is_resident() {
    for (loader, text) in [
        (
            "vendor/autoload_runtime.php",
            r"<?php $class = $_ENV['APP_RUNTIME'] ?? 'Hearth\\Bridge\\Symfony\\Runtime';",
        ),
        (
            "autoload_runtime.php",
            r"<?php use Hearth\Bridge\Symfony\Runtime;",
        ),
    ] {
        let project = Project::new(&[
            ("config/bundles.php", ""),
            ("public/index.php", RUNTIME_INDEX),
            (loader, text),
        ]);
        let (mode, _, script, reasons) = project.entry(&[]);
        assert_eq!(
            (mode, script.as_deref()),
            (Mode::Resident, Some("public/index.php"))
        );
        assert_eq!(
            reasons[1],
            format!("{loader} names Hearth\\Bridge\\Symfony\\Runtime: resident mode with public/index.php")
        );
    }
}

#[test]
fn symfony_is_known_by_composer_and_its_version_by_installed_php() {
    let project = Project::new(&[
        (
            "composer.json",
            r#"{"require": {"symfony/framework-bundle": "7.*"}}"#,
        ),
        ("public/index.php", RUNTIME_INDEX),
        (
            "vendor/composer/installed.php",
            "<?php return array('versions' => array('symfony/runtime' => array(\n 'pretty_version' => 'v8.0.2',",
        ),
    ]);
    let (mode, _, _, reasons) = project.entry(&[]);
    assert_eq!(mode, Mode::Resident);
    assert_eq!(
        reasons[0],
        "found composer.json with symfony/framework-bundle: a Symfony application"
    );
}

#[test]
fn laravel_is_resident_with_the_worker_of_octane() {
    let project = Project::new(&[
        ("artisan", ""),
        ("public/index.php", ""),
        ("public/frankenphp-worker.php", ""),
    ]);
    let (mode, root, script, reasons) = project.entry(&[]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Resident, "public", Some("public/frankenphp-worker.php"))
    );
    assert_eq!(
        reasons,
        [
            "found artisan: a Laravel application",
            "found public/frankenphp-worker.php of Octane: resident mode with it"
        ]
    );

    let project = Project::new(&[("artisan", ""), ("public/index.php", "")]);
    let (mode, _, script, _) = project.entry(&[]);
    assert_eq!(
        (mode, script.as_deref()),
        (Mode::Classic, Some("public/index.php"))
    );
}

#[test]
fn wordpress_is_classic_with_its_index() {
    let project = Project::new(&[("wp-includes/version.php", ""), ("index.php", "")]);
    let (mode, root, script, reasons) = project.entry(&[]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Classic, "", Some("index.php"))
    );
    assert_eq!(
        reasons,
        [
            "found wp-includes/version.php: WordPress",
            "classic mode; URLs that name no file go to index.php"
        ]
    );
}

#[test]
fn a_worker_script_is_resident_whatever_stands_beside_it() {
    let worker = "<?php while (hearth_handle_request($f)) {}";
    let project = Project::new(&[("worker.php", worker), ("public/index.php", "")]);
    let (mode, root, script, reasons) = project.entry(&[]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Resident, "public", Some("worker.php"))
    );
    assert_eq!(
        reasons[1],
        "found worker.php, which calls hearth_handle_request(): resident mode with worker.php"
    );

    let project = Project::new(&[("worker.php", "<?php echo 1;"), ("public/index.php", "")]);
    assert_eq!(project.entry(&[]).0, Mode::Classic);
}

#[test]
fn plain_files_are_classic() {
    for (files, root, script) in [
        (
            &["public/index.php", "index.php"][..],
            "public",
            Some("public/index.php"),
        ),
        (&["index.php", "public/style.css"][..], "", Some("index.php")),
        (&["public/info.php"][..], "public", None),
        (&["info.php"][..], "", None),
    ] {
        let files: Vec<(&str, &str)> = files.iter().map(|&name| (name, "")).collect();
        let (mode, found_root, found_script, _) = Project::new(&files).entry(&[]);
        assert_eq!(
            (mode, found_root.as_str(), found_script.as_deref()),
            (Mode::Classic, root, script)
        );
    }
}

#[test]
fn what_is_set_wins_over_what_is_found() {
    let worker = "<?php while (frankenphp_handle_request($f)) {}";
    let project = Project::new(&[("worker.php", worker), ("index.php", ""), ("web/index.php", "")]);
    assert_eq!(
        project.entry(&["pool.web.mode=classic"]).2.as_deref(),
        Some("index.php")
    );
    let (mode, root, script, reasons) = project.entry(&["pool.web.script=./index.php", "root=web"]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Classic, "web", Some("index.php"))
    );
    assert_eq!(
        reasons,
        [
            "as set: script index.php; it is no worker script: classic mode",
            "as set: document root web"
        ]
    );
    let (mode, _, script, _) = project.entry(&["pool.web.mode=resident"]);
    assert_eq!((mode, script.as_deref()), (Mode::Resident, Some("worker.php")));
    let (mode, _, script, _) = project.entry(&["pool.web.mode=classic", "root=web"]);
    assert_eq!((mode, script.as_deref()), (Mode::Classic, Some("web/index.php")));
}
