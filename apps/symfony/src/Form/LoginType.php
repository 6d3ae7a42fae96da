<?php

declare(strict_types=1);

namespace App\Form;

use Symfony\Component\Form\AbstractType;
use Symfony\Component\Form\Extension\Core\Type\PasswordType;
use Symfony\Component\Form\Extension\Core\Type\TextType;
use Symfony\Component\Form\FormBuilderInterface;
use Symfony\Component\Validator\Constraints\NotBlank;

final class LoginType extends AbstractType
{
    public function buildForm(FormBuilderInterface $builder, array $options): void
    {
        $builder
            ->add('user', TextType::class, [
                'attr' => ['autocomplete' => 'username'],
                'constraints' => [new NotBlank()],
            ])
            ->add('password', PasswordType::class, [
                'attr' => ['autocomplete' => 'current-password'],
                'constraints' => [new NotBlank()],
            ]);
    }
}
